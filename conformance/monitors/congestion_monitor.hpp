#pragma once
/// Congestion marks and the notifications that answer them. IBTA vol 1, A17.9.

#include <array>
#include <cstdint>

#include "conformance/monitors/evaluator.hpp"

namespace rdmawire::conformance {

struct MonitoredPacket;

/// What one end of a connection sends, as far as congestion matters.
class CongestionMonitor {
 public:
  /// A packet of this end that is marked, or a CNP. `ends`: both ends' monitors.
  void packet(const MonitoredPacket& watch, std::array<CongestionMonitor, 2>& ends);

 private:
  std::uint64_t marked_ = 0;  ///< packets of this end with CE
  std::uint64_t marked_frame_ = 0;
  std::uint16_t marked_pkey_ = 0;
  std::uint64_t notifications_ = 0;  ///< CNPs that this end sent
};

}  // namespace rdmawire::conformance
