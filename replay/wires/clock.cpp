#include "replay/wires/clock.hpp"

#include <poll.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <limits>

namespace rdmawire::replay::wire_clock {

namespace {

constexpr std::int64_t second = 1'000'000'000;

std::int64_t read(clockid_t clock) {
  timespec t{};
  clock_gettime(clock, &t);
  return t.tv_sec * second + t.tv_nsec;
}

std::int64_t offset() {
  static const std::int64_t value = read(CLOCK_REALTIME) - read(CLOCK_MONOTONIC);
  return value;
}

}  // namespace

std::int64_t now() { return offset() + read(CLOCK_MONOTONIC); }

timespec monotonic(std::int64_t time) {
  const std::int64_t at = std::max<std::int64_t>(1, time > offset() ? time - offset() : 1);
  return {at / second, at % second};
}

std::int64_t minus_realtime() { return now() - read(CLOCK_REALTIME); }

void sleep_until(std::int64_t time, std::int64_t spin) {
  if (time - spin > now()) {
    const timespec until = monotonic(time - spin);
    while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, nullptr) == EINTR) {
    }
  }
  while (now() < time) {
  }
}

int poll_milliseconds(std::int64_t deadline) {
  if (deadline == std::numeric_limits<std::int64_t>::max()) return -1;
  const std::int64_t left = deadline - std::min(deadline, now());
  return static_cast<int>(std::min<std::int64_t>(INT_MAX, left / 1'000'000 + (left % 1'000'000 ? 1 : 0)));
}

bool wait_for(int descriptor, short events, std::int64_t deadline) {
  pollfd wanted{descriptor, events, 0};
  for (;;) {
    const bool endless = deadline == std::numeric_limits<std::int64_t>::max();
    const std::int64_t left = std::max<std::int64_t>(0, deadline - std::min(deadline, now()));
    const timespec timeout{left / second, left % second};
    const int ready = ppoll(&wanted, 1, endless ? nullptr : &timeout, nullptr);
    if (ready > 0) return true;
    if (ready == 0 && left == 0) return false;
    if (ready < 0 && errno != EINTR && errno != EAGAIN) return true;  // the caller's next call reports the error
  }
}

}  // namespace rdmawire::replay::wire_clock
