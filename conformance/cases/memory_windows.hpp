#pragma once
/// Memory windows that are bound asynchronously.

#include <cstdint>

#include "conformance/cases/device_bench.hpp"

namespace rdmawire::conformance {

/// Posts the bind of a type 2 window to a part of the QP's region through the QP, or ends the case. The window is bound
/// when the request with this wr_id completes.
BoundWindow ask_for_window(DeviceBench& bench, DeviceQueuePair& through, std::uint64_t offset, std::uint64_t length,
                           const peer::Names& access, std::uint64_t wr_id);

}  // namespace rdmawire::conformance
