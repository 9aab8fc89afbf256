#pragma once
/// The sender of an unreliable connection (UC): PSNs, and that nothing is sent again.

#include <cstdint>
#include <vector>

#include "dissectors/machines/message_sequence.hpp"
#include "dissectors/protocol/modular.hpp"

namespace rdmawire::conformance {

struct MonitoredPacket;

/// One end of a UC connection, as sender.
class UnreliableSender {
 public:
  void packet(const MonitoredPacket& watch);
  /// Monitors::states_of, appended.
  void states(std::vector<std::uint64_t>& states) const;
  [[nodiscard]] bool started() const { return started_; }
  [[nodiscard]] Psn first() const { return first_; }

 private:
  bool started_ = false;
  Psn first_, next_;
  std::uint64_t seen_ = 0;  // of the 64 PSNs before next_: bit i stands for next_ - 1 - i
  std::uint64_t last_frame_ = 0;
  machines::MessageSequence sequence_;
  bool sequence_known_ = false;
};

/// A response on an unreliable connection.
void judge_unreliable_response(const MonitoredPacket& watch);

}  // namespace rdmawire::conformance
