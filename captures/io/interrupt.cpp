#include "captures/io/interrupt.hpp"

#include <poll.h>

#include <chrono>

namespace rdmawire::captures {

namespace {
using Clock = std::chrono::steady_clock;
constexpr std::chrono::milliseconds interval{50};
}  // namespace

struct InterruptScope::State {
  std::function<bool()> keep_reading;
  State* outer = nullptr;
  Clock::time_point next = Clock::now() + interval;
  bool stopped = false;
};

thread_local InterruptScope::State* InterruptScope::current = nullptr;

InterruptScope::InterruptScope(std::function<bool()> keep_reading)
    : state_(new State{.keep_reading = std::move(keep_reading), .outer = current}) {
  current = state_;
}

InterruptScope::~InterruptScope() {
  current = state_->outer;
  delete state_;
}

bool InterruptScope::active() { return current != nullptr; }

bool InterruptScope::keep_reading() {
  State* const state = current;
  if (!state) return true;
  if (state->stopped) return false;
  if (const auto now = Clock::now(); now >= state->next) {
    state->next = now + interval;
    state->stopped = !state->keep_reading();
  }
  return !state->stopped;
}

bool InterruptScope::wait_readable(int descriptor) {
  for (;;) {
    if (!keep_reading()) return false;
    pollfd input{descriptor, POLLIN, 0};
    if (::poll(&input, 1, static_cast<int>(interval.count())) != 0 && input.revents != 0) return true;
  }
}

}  // namespace rdmawire::captures
