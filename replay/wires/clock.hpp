#pragma once
/// The clock of real-time wires: nanoseconds since 1970 that never jump. It is initialized from CLOCK_REALTIME at first
/// use and advances with CLOCK_MONOTONIC.

#include <cstdint>
#include <ctime>

namespace rdmawire::replay::wire_clock {

std::int64_t now();
/// The CLOCK_MONOTONIC value of `time`. Times before its start become 1 ns, so that a timer expires immediately.
timespec monotonic(std::int64_t time);
/// Offset to add to a kernel timestamp (CLOCK_REALTIME) to convert it to this clock.
std::int64_t minus_realtime();
/// Sleeps until `time` with one absolute timer. Busy-waits for the last `spin` nanoseconds.
void sleep_until(std::int64_t time, std::int64_t spin = 0);
/// Milliseconds for poll(2) until `deadline`, rounded up. -1: no timeout.
int poll_milliseconds(std::int64_t deadline);
/// Waits for one of `events` or an error on the descriptor. Returns false if neither occurs before `deadline`.
bool wait_for(int descriptor, short events, std::int64_t deadline);

}  // namespace rdmawire::replay::wire_clock
