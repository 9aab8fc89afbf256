#pragma once
/// Memory windows whose binding somebody else waits for.

#include <cstdint>

#include "conformance/cases/device_bench.hpp"

namespace rdmawire::conformance {

/// Asks for a window of type 2 onto a piece of the queue pair's region, bound through the queue pair; or ends the case.
/// It is bound when the request of that wr_id completes.
BoundWindow ask_for_window(DeviceBench& bench, DeviceQueuePair& through, std::uint64_t offset, std::uint64_t length,
                           const peer::Names& access, std::uint64_t wr_id);

}  // namespace rdmawire::conformance
