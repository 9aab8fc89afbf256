#pragma once
/// For tests only: two devices on one link, in virtual time.

#include <functional>
#include <map>
#include <vector>

#include "conformance/device/roce/device.hpp"

namespace rdmawire::device::testing {

struct Seen {
  int from = 0;  ///< number of the sending device
  std::int64_t time = 0;
  std::vector<std::uint8_t> bytes;
};

/// Returns the delay, in nanoseconds, of each copy of a frame that arrives. Empty: the frame is lost.
using Way = std::function<std::vector<std::int64_t>(const Seen&)>;

class Line {
 public:
  static constexpr std::int64_t delay = 1000;

  Line(Device& a, Device& b) : ends_{&a, &b} {}

  Way way = [](const Seen&) { return std::vector<std::int64_t>{delay}; };
  /// Modifies a frame, like a switch on the path.
  std::function<void(std::vector<std::uint8_t>&)> mark = [](std::vector<std::uint8_t>&) {};
  std::vector<Seen> seen;
  std::int64_t now = 0;

  /// Run until no event is left, or until time `until`.
  void run(std::int64_t until = 10'000'000'000) {
    for (;;) {
      std::int64_t next = flying_.empty() ? never : flying_.begin()->first;
      int who = -1;
      for (int i = 0; i < 2; ++i)
        if (ends_[i]->wakes() != never && std::max(now, ends_[i]->wakes()) < next) {
          next = std::max(now, ends_[i]->wakes());
          who = i;
        }
      if (next == never || next > until) {
        if (until != 10'000'000'000) now = std::max(now, until);
        return;
      }
      now = next;
      replay::SimulatedHostOutput output;
      if (who >= 0) {
        ends_[who]->woken(now, output);
        take(who, output);
      } else {
        const auto [to, bytes] = flying_.begin()->second;
        flying_.erase(flying_.begin());
        ends_[to]->arrived(bytes, now, output);
        take(to, output);
      }
    }
  }

 private:
  void take(int from, replay::SimulatedHostOutput& output) {
    for (auto& frame : output.frames) {
      const Seen sent{from, std::max(frame.time, now), frame.bytes};
      seen.push_back(sent);
      for (const std::int64_t after : way(sent)) {
        std::vector<std::uint8_t> arriving = sent.bytes;
        mark(arriving);
        flying_.emplace(sent.time + after, std::pair(1 - from, std::move(arriving)));
      }
    }
  }

  Device* ends_[2];
  std::multimap<std::int64_t, std::pair<int, std::vector<std::uint8_t>>> flying_;
};

}  // namespace rdmawire::device::testing
