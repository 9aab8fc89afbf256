#pragma once
/// Checks of an unreliable connection (UC): consecutive PSNs, no retransmissions or responses.

#include <cstdint>
#include <vector>

#include "dissectors/machines/message_sequence.hpp"
#include "dissectors/protocol/modular.hpp"

namespace rdmawire::conformance {

struct MonitoredPacket;

/// One endpoint of a UC connection, as sender.
class UnreliableSender {
 public:
  void packet(const MonitoredPacket& watch);
  /// Appends the values of Monitors::states_of().
  void states(std::vector<std::uint64_t>& states) const;
  [[nodiscard]] bool started() const { return started_; }
  [[nodiscard]] Psn first() const { return first_; }

 private:
  bool started_ = false;
  Psn first_, next_;
  std::uint64_t seen_ = 0;  // captured PSNs before next_: bit i is next_ - 1 - i
  std::uint64_t last_frame_ = 0;
  machines::MessageSequence sequence_;
  bool sequence_known_ = false;
};

/// Handles a response on an unreliable connection.
void check_unreliable_response(const MonitoredPacket& watch);

}  // namespace rdmawire::conformance
