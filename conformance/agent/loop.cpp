#include "conformance/agent/loop.hpp"

#include <algorithm>
#include <ctime>

namespace rdmawire::agent {

Loop::Time Loop::monotonic() {
  timespec time{};
  clock_gettime(CLOCK_MONOTONIC, &time);
  return time.tv_sec * 1'000'000'000LL + time.tv_nsec;
}

Loop::Watch Loop::add_descriptor(int descriptor, short events, std::function<void(short)> ready) {
  auto slot = std::make_shared<Slot>(Slot{descriptor, events, 0, std::move(ready), true});
  slots_.push_back(slot);
  return Watch(std::move(slot));
}

Loop::Watch Loop::add_timer(Time time, std::function<void()> due) {
  auto slot = std::make_shared<Slot>(Slot{-1, 0, time, [due = std::move(due)](short) { due(); }, true});
  slots_.push_back(slot);
  return Watch(std::move(slot));
}

int Loop::turn(Time most_wait) {
  std::erase_if(slots_, [](const auto& slot) { return !slot->alive; });
  const std::vector<std::shared_ptr<Slot>> slots = slots_;  // copy, because a callback may add and remove slots

  std::vector<pollfd> descriptors;
  std::vector<Slot*> watched;
  Time wait = most_wait;
  const Time before = now();
  for (const auto& slot : slots) {
    if (slot->descriptor >= 0) {
      // poll(2) ignores negative descriptors. An empty event mask would still report POLLHUP continuously.
      descriptors.push_back({slot->events == 0 ? -1 : slot->descriptor, slot->events, 0});
      watched.push_back(slot.get());
    } else {
      const Time left = std::max<Time>(slot->time - before, 0);
      wait = wait < 0 ? left : std::min(wait, left);
    }
  }
  const timespec limit{static_cast<time_t>(wait / 1'000'000'000), static_cast<long>(wait % 1'000'000'000)};
  const int ready = ppoll(descriptors.data(), descriptors.size(), wait < 0 ? nullptr : &limit, nullptr);

  int called = 0;
  if (ready > 0) {
    for (std::size_t i = 0; i < descriptors.size(); ++i) {
      if (descriptors[i].revents == 0 || !watched[i]->alive) continue;
      watched[i]->ready(descriptors[i].revents);
      ++called;
    }
  }
  const Time after = now();
  for (const auto& slot : slots) {
    if (slot->descriptor >= 0 || !slot->alive || slot->time > after) continue;
    slot->alive = false;
    slot->ready(0);
    ++called;
  }
  return called;
}

void Loop::run() {
  while (!stopped_) turn();
}

}  // namespace rdmawire::agent
