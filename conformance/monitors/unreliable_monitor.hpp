#pragma once
/// Checks of an unreliable connection (UC): it has consecutive PSNs, and no retransmissions or responses.

#include <cstdint>
#include <vector>

#include "dissectors/machines/message_sequence.hpp"
#include "dissectors/protocol/modular.hpp"

namespace rdmawire::conformance {

struct MonitoredPacket;

/// Checks the packets that one endpoint of a UC connection sends.
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
  std::uint64_t seen_ = 0;  // bit i: the PSN next_ - 1 - i was captured
  std::uint64_t last_frame_ = 0;
  machines::MessageSequence sequence_;
  bool sequence_known_ = false;
};

/// Reports a response on an unreliable connection, which is a violation.
void check_unreliable_response(const MonitoredPacket& watch);

}  // namespace rdmawire::conformance
