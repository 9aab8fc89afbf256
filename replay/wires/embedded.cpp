#include "replay/wires/embedded.hpp"

#include <algorithm>

#include "replay/wires/error.hpp"

namespace rdmawire::replay {

EmbeddedWire::EmbeddedWire(SimulatedHost& station, EmbeddedWireOptions options)
    : station_(station), options_(std::move(options)) {
  capabilities_.max_bytes = options_.max_bytes;
  capabilities_.min_bytes = 14;
  capabilities_.batch = 64;
  capabilities_.paces = true;
  capabilities_.virtual_time = true;
}

WireResult<std::size_t> EmbeddedWire::send(std::span<const Outgoing> frames) {
  if (closed_) return tl::unexpected(closed_error(name()));
  std::size_t sent = 0;
  for (const Outgoing& outgoing : frames) {
    if (to_station_.size() >= options_.frames) break;
    if (outgoing.frame.size() < capabilities_.min_bytes || outgoing.frame.size() > capabilities_.max_bytes) {
      if (sent > 0) break;
      return tl::unexpected(wire_error(WireError::Kind::frame, 0, "{}: frame of {} bytes; the valid range is {} to {}",
                                       name(), outgoing.frame.size(), capabilities_.min_bytes,
                                       capabilities_.max_bytes));
    }
    last_sent_ = std::max({outgoing.time, now_, last_sent_});
    to_station_.push_back({{outgoing.frame.begin(), outgoing.frame.end()}, last_sent_ + options_.delay});
    counters_.sent_bytes += outgoing.frame.size();
    ++sent;
  }
  counters_.sent += sent;
  return sent;
}

void EmbeddedWire::take(SimulatedHostOutput& output) {
  for (SimulatedHostOutput::Frame& frame : output.frames) {
    if (frame.bytes.size() > options_.max_bytes || from_station_.size() >= options_.frames) {
      ++counters_.dropped;
      continue;
    }
    from_station_.emplace(std::max(frame.time, now_) + options_.delay, std::move(frame.bytes));
  }
  output.frames.clear();
}

WireResult<std::optional<Received>> EmbeddedWire::receive(std::int64_t deadline) {
  if (closed_) return tl::unexpected(closed_error(name()));
  deadline = std::max(deadline, now_);
  SimulatedHostOutput output;
  std::int64_t woken_at = -1;
  std::size_t wakes = 0;
  for (;;) {
    // Order at equal times: first arrivals at this side, then arrivals at the host, then its timer.
    const std::int64_t here = from_station_.empty() ? SimulatedHost::never : from_station_.begin()->first;
    const std::int64_t there = to_station_.empty() ? SimulatedHost::never : to_station_.front().time;
    const std::int64_t alarm = std::max(now_, station_.wakes());
    const std::int64_t next = std::min({here, there, alarm});
    if (next == SimulatedHost::never || next > deadline) {
      if (deadline != forever) now_ = deadline;
      return std::nullopt;
    }
    now_ = std::max(now_, next);
    if (here == next) {
      current_ = std::move(from_station_.begin()->second);
      from_station_.erase(from_station_.begin());
      ++counters_.received;
      counters_.received_bytes += current_.size();
      return Received{current_, here, static_cast<std::uint32_t>(current_.size()), false};
    }
    if (there == next) {
      const SimulatedHostOutput::Frame frame = std::move(to_station_.front());
      to_station_.pop_front();
      station_.arrived(frame.bytes, now_, output);
    } else {
      wakes = woken_at == now_ ? wakes + 1 : 0;
      woken_at = now_;
      if (wakes > options_.wakes_at_once)
        return tl::unexpected(wire_error(WireError::Kind::system, 0,
                                         "{}: the simulated host repeats its timer at {} ns; its time must "
                                         "advance",
                                         name(), now_));
      station_.woken(now_, output);
    }
    take(output);
  }
}

}  // namespace rdmawire::replay
