#pragma once
/// The clock of wires that live in real time: nanoseconds since 1970 that never jump. It was set by the machine's clock
/// when the program first asked, and has run with CLOCK_MONOTONIC since.

#include <cstdint>
#include <ctime>

namespace rdmawire::replay::wire_clock {

std::int64_t now();
/// CLOCK_MONOTONIC's reading at that time; what lies before it is 1 ns, so that a timer goes off at once.
timespec monotonic(std::int64_t time);
/// What CLOCK_REALTIME must lose to become a time of this clock: add it to a kernel's time stamp.
std::int64_t minus_realtime();
/// Sleeps until that time by one absolute timer; the last `spin` nanoseconds are spent awake, for exactness.
void sleep_until(std::int64_t time, std::int64_t spin = 0);
/// Milliseconds for poll(2) until `deadline`, rounded up; -1: no end.
int poll_milliseconds(std::int64_t deadline);
/// Waits until one of `events` of descriptor or an error of it, and gives true; false when none came until `deadline`.
bool wait_for(int descriptor, short events, std::int64_t deadline);

}  // namespace rdmawire::replay::wire_clock
