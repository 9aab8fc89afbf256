#pragma once
/// Timed sending, for wires without pacing and for callers that need all frames sent.

#include <algorithm>
#include <span>

#include "replay/wires/clock.hpp"
#include "replay/wires/wire.hpp"

namespace rdmawire::replay {

/// Passes `frames` to `hand_over` in runs of at most `batch` frames with the same due time, and sleeps until each run
/// is due. `hand_over` returns the number of accepted frames, or an error of the run's first frame. Returns the result
/// for Wire::send().
template <class HandOver>
WireResult<std::size_t> send_when_due(std::span<const Outgoing> frames, std::size_t batch, HandOver hand_over) {
  std::size_t sent = 0;
  while (sent < frames.size()) {
    if (frames[sent].time > 0) wire_clock::sleep_until(frames[sent].time);
    const std::int64_t now = frames[sent].time > 0 ? wire_clock::now() : 0;
    std::size_t run = 1;
    while (run < batch && sent + run < frames.size() && frames[sent + run].time <= now) ++run;
    const WireResult<std::size_t> taken = hand_over(frames.subspan(sent, run));
    if (!taken) {
      if (sent == 0) return taken;
      break;  // the next call returns the error for its first frame
    }
    sent += *taken;
    if (*taken < run) break;
  }
  return sent;
}

/// Sends all `frames` and waits while a queue is full, until `deadline` of the wire's clock. Returns the number of sent
/// frames. A smaller number than frames.size() means that the deadline passed.
WireResult<std::size_t> send_all(Wire& wire, std::span<const Outgoing> frames, std::int64_t deadline);

}  // namespace rdmawire::replay
