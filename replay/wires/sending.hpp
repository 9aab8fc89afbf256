#pragma once
/// Sending at a time: for wires that do not hold a frame back themselves, and for callers who want all of it sent.

#include <algorithm>
#include <span>

#include "replay/wires/clock.hpp"
#include "replay/wires/wire.hpp"

namespace rdmawire::replay {

/// Hands `frames` over in runs of at most `batch` that are due together, and sleeps until each run's time. `hand_over`
/// takes a run and gives how many it took, or an error of the run's first frame. What a wire's send() gives.
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
      break;  // the next call meets the same error with its first frame
    }
    sent += *taken;
    if (*taken < run) break;
  }
  return sent;
}

/// Sends all of `frames`, waiting while a queue is full, at the latest until `deadline` of the wire's clock; gives how
/// many were sent. Fewer than all without an error: the deadline passed.
WireResult<std::size_t> send_all(Wire& wire, std::span<const Outgoing> frames, std::int64_t deadline);

}  // namespace rdmawire::replay
