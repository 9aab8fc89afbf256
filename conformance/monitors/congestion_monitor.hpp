#pragma once
/// Checks of ECN-marked packets and of the CNPs that they cause. IBTA vol 1, A17.9.

#include <array>
#include <cstdint>

#include "conformance/monitors/evaluator.hpp"

namespace rdmawire::conformance {

struct MonitoredPacket;

/// ECN marks and CNPs in the packets of one endpoint.
class CongestionMonitor {
 public:
  /// Handles an ECN-marked packet or a CNP of this endpoint. `ends`: the monitors of both endpoints.
  void packet(const MonitoredPacket& watch, std::array<CongestionMonitor, 2>& ends);

 private:
  std::uint64_t marked_ = 0;  ///< number of packets that this endpoint sent and that have ECN 11 (CE)
  std::uint64_t marked_frame_ = 0;
  std::uint16_t marked_pkey_ = 0;
  std::uint64_t notifications_ = 0;  ///< number of CNPs that this endpoint sent
};

}  // namespace rdmawire::conformance
