#pragma once
/// The path MTU of cases whose messages have several packets.

#include <cstdint>

#include "conformance/cases/environment.hpp"

namespace rdmawire::conformance {

/// Small packets in the default row. Other rows use other path MTUs, so such a case computes its lengths from the MTU
/// of the QP.
inline constexpr auto small_packets = Option<std::uint32_t>::usual(256);

}  // namespace rdmawire::conformance
