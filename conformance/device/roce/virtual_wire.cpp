#include "conformance/device/roce/virtual_wire.hpp"

#include <algorithm>

namespace rdmawire::device {

using replay::SimulatedHost;
using replay::WireError;

VirtualWire::VirtualWire(SimulatedHost& station, std::int64_t delay) : station_(station), delay_(delay) {
  capabilities_.max_bytes = max_bytes;
  capabilities_.min_bytes = 14;
  capabilities_.batch = 64;
  capabilities_.paces = true;
  capabilities_.virtual_time = true;
}

std::int64_t VirtualWire::now() const {
  const std::lock_guard lock(mutex_);
  return now_;
}

replay::WireCounters VirtualWire::counters() const {
  const std::lock_guard lock(mutex_);
  return counters_;
}

replay::WireResult<std::size_t> VirtualWire::send(std::span<const replay::Outgoing> frames) {
  const std::lock_guard lock(mutex_);
  if (closed_) return tl::unexpected(WireError{WireError::Kind::closed, 0, name_ + ": the wire is closed"});
  std::size_t sent = 0;
  for (const replay::Outgoing& frame : frames) {
    if (to_station_.size() >= most_frames) break;
    if (frame.frame.size() < capabilities_.min_bytes || frame.frame.size() > max_bytes) {
      if (sent > 0) break;
      return tl::unexpected(WireError{
          WireError::Kind::frame, 0,
          name_ + ": invalid frame size of " + std::to_string(frame.frame.size()) + " bytes; 14 to 65536 are allowed"});
    }
    // Make send times unique, so that they determine the order of arrival.
    last_sent_ = std::max({frame.time, now_, last_sent_ + 1});
    if (frame.time <= now_) now_ = last_sent_ + 1;
    to_station_.push_back({last_sent_ + delay_, {frame.frame.begin(), frame.frame.end()}});
    counters_.sent_bytes += frame.frame.size();
    ++sent;
  }
  counters_.sent += sent;
  return sent;
}

std::int64_t VirtualWire::next_there() const {
  const std::int64_t frame = to_station_.empty() ? SimulatedHost::never : to_station_.front().time;
  const std::int64_t alarm = station_.wakes();
  return std::min(frame, alarm == SimulatedHost::never ? alarm : std::max(now_, alarm));
}

void VirtualWire::happen(std::int64_t time) {
  now_ = std::max(now_, time);
  replay::SimulatedHostOutput output;
  if (!to_station_.empty() && to_station_.front().time <= now_) {
    const InFlightFrame frame = std::move(to_station_.front());
    to_station_.pop_front();
    station_.arrived(frame.bytes, now_, output);
  } else {
    station_.woken(now_, output);
  }
  for (auto& frame : output.frames) {
    if (here_.size() >= most_frames || frame.bytes.size() > max_bytes)
      ++counters_.dropped;
    else
      here_.emplace(std::max(frame.time, now_) + delay_, std::move(frame.bytes));
  }
}

bool VirtualWire::step(std::int64_t until) {
  const std::int64_t next = next_there();
  if (next == SimulatedHost::never || next > until) {
    now_ = std::max(now_, until);
    return false;
  }
  happen(next);
  return true;
}

replay::WireResult<std::optional<replay::Received>> VirtualWire::receive(std::int64_t deadline) {
  const std::lock_guard lock(mutex_);
  if (closed_) return tl::unexpected(WireError{WireError::Kind::closed, 0, name_ + ": the wire is closed"});
  deadline = std::max(deadline, now_);
  for (;;) {
    const std::int64_t here = here_.empty() ? SimulatedHost::never : here_.begin()->first, there = next_there();
    if (here <= there && here != SimulatedHost::never && here <= deadline) {
      now_ = std::max(now_, here);
      current_ = std::move(here_.begin()->second);
      here_.erase(here_.begin());
      ++counters_.received;
      counters_.received_bytes += current_.size();
      return replay::Received{current_, here, static_cast<std::uint32_t>(current_.size()), false};
    }
    if (there == SimulatedHost::never || there > deadline) {
      if (deadline != forever) now_ = deadline;
      return std::nullopt;
    }
    happen(there);
  }
}

void VirtualWire::close() {
  const std::lock_guard lock(mutex_);
  closed_ = true;
}

}  // namespace rdmawire::device
