#pragma once
/// Validation of every frame that the tester receives in any case: lengths, checksums, ICRC, reserved
/// bits, versions, addresses and queue pairs. The checks are stated from the clauses and do not use the monitors, so
/// that both verify each other.
///
/// Frames of the device's host are no violation: ARP, neighbor discovery, IGMP, mDNS, ICMP, TCP, and datagrams to other
/// UDP ports. The values of pad bytes are not checked, because no known clause determines them.

#include <cstdint>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "conformance/cases/queue_pair.hpp"
#include "conformance/cases/wire_violation.hpp"
#include "dissectors/protocol/stack.hpp"

namespace rdmawire::conformance {

/// The result for one frame.
struct FrameReport {
  enum class Kind : std::uint8_t {
    packet,      ///< an RDMA packet, valid or not
    icmp_error,  ///< an ICMP error that quotes a RoCE packet
    other,       ///< a frame of another protocol, or one in which no BTH can be found
  };
  Kind kind = Kind::other;
  std::vector<WireViolation> violations{};
  std::string text{};  ///< for icmp_error: "ICMP destination unreachable, code 3, for a packet of the tester"
};

class FrameCheck {
 public:
  /// `paths`: all paths to the device.
  explicit FrameCheck(std::vector<Path> paths) : paths_(std::move(paths)) {}

  /// Checks a frame. `queue_pairs`: those of the tester. `earlier`: QP numbers of the tester in earlier cases, to which
  /// a retransmission may still arrive.
  [[nodiscard]] FrameReport check(const HeaderStack& stack, std::span<const TesterQueuePair> queue_pairs,
                                  const std::set<std::uint32_t>& earlier) const;

 private:
  [[nodiscard]] bool is_from_device(const HeaderStack& stack) const;
  std::vector<Path> paths_;
};

}  // namespace rdmawire::conformance
