#include "pysdk/src/wires.hpp"

#include <poll.h>

#include <algorithm>

#include "dissectors/protocol/decode.hpp"
#include "dissectors/protocol/infiniband.hpp"
#include "replay/wires/clock.hpp"

namespace rdmawire::python {
namespace {

using replay::Wire;
using replay::WireError;
using replay::WireResult;

constexpr std::int64_t signal_check_interval = 100'000'000;  // nanoseconds
constexpr std::ptrdiff_t most_searched = 1024;  // recorded frames that are compared with a received frame of this host
constexpr std::int64_t short_signal_check_interval = 5'000'000;  // nanoseconds, while other threads wait for the wire

bool is_for(Bytes bytes, std::uint32_t dest_qp) {
  const HeaderStack stack = decode(bytes);
  const auto bth = stack.get<Bth>();
  return bth && bth->get<"dest_qp">() == dest_qp;
}

bool wants(const Arrival& arrival, const PendingRequest& wanted) {
  return (wanted.own || !arrival.own) && (!wanted.dest_qp || is_for(arrival.bytes, *wanted.dest_qp));
}

}  // namespace

SharedWire::SharedWire(std::unique_ptr<Wire> wire) : name_(wire->name()) { own_ = std::move(wire); }

SharedWire::~SharedWire() {
  // A forked process does not own the wire.
  if (owned_by_parent_process()) static_cast<void>(new std::shared_ptr<Wire>(std::move(own_)));
}

std::shared_ptr<Wire> SharedWire::lease() const {
  if (owned_by_parent_process()) return nullptr;
  if (lease_) return lease_();
  const std::lock_guard lock(closing_);
  return own_;
}

WireError SharedWire::closed_error() const {
  return {WireError::Kind::closed, 0,
          owned_by_parent_process() ? name_ + ": was opened before fork(); open it again in this process"
                                    : name_ + ": was closed"};
}

bool SharedWire::closed() const { return lease() == nullptr; }

void SharedWire::close() {
  if (owned_by_parent_process()) return;
  std::shared_ptr<Wire> wire;
  {
    const std::lock_guard lock(closing_);
    wire = std::move(own_);
    own_ = nullptr;
  }
  if (!wire) return;
  const std::lock_guard lock(mutex_);
  wire->close();
  kept_.clear();
}

WireResult<SharedWire::Step> SharedWire::receive(std::int64_t deadline, const PendingRequest& wanted) {
  const auto wire = lease();
  if (!wire) return tl::unexpected(closed_error());
  int descriptor = -1;
  std::int64_t until = deadline;
  {
    const std::lock_guard lock(mutex_);
    if (auto kept = from_kept(wanted)) return Step{std::move(kept), false};
    descriptor = wire->descriptor();
    const bool virtual_time = wire->capabilities().virtual_time;
    if (!virtual_time)
      until = std::min(deadline, wire->now() + (descriptor < 0 ? short_signal_check_interval : signal_check_interval));
    const bool polls = descriptor >= 0 && !virtual_time;
    for (;;) {
      auto received = wire->receive(polls ? 0 : until);
      if (!received) {
        // Another thread may have called close().
        if (closed()) return tl::unexpected(closed_error());
        return tl::unexpected(std::move(received.error()));
      }
      if (!*received) {
        if (virtual_time || wire->now() >= deadline) return Step{{}, true};
        if (polls) break;
        return Step{};
      }
      if (auto arrival = accept(**received, wanted)) return Step{std::move(arrival), false};
    }
  }
  replay::wire_clock::wait_for(descriptor, POLLIN, until);
  return Step{};
}

std::optional<Arrival> SharedWire::from_kept(const PendingRequest& wanted) {
  const auto found =
      std::find_if(kept_.begin(), kept_.end(), [&](const Arrival& arrival) { return wants(arrival, wanted); });
  if (found == kept_.end()) return std::nullopt;
  Arrival arrival = std::move(*found);
  kept_.erase(found);
  return arrival;
}

std::optional<Arrival> SharedWire::accept(const replay::Received& received, const PendingRequest& wanted) {
  // Frames that this wire sent were recorded by send(). All other frames of this host were sent through other sockets.
  const auto is_it = [&](const Recorded& one) { return one.sent && std::ranges::equal(one.bytes, received.frame); };
  const auto newest = recorded_.end() - std::min<std::ptrdiff_t>(std::ssize(recorded_), most_searched);
  if (!received.own || std::none_of(newest, recorded_.end(), is_it)) note(received.time, received.own, received.frame);
  Arrival arrival{{received.frame.begin(), received.frame.end()}, received.time, received.wire_bytes, received.own};
  if (wants(arrival, wanted)) return arrival;
  if (wanted.dest_qp && !arrival.own) {
    if (kept_.size() >= most_kept) kept_.pop_front();
    kept_.push_back(std::move(arrival));
  }
  return std::nullopt;
}

WireResult<std::size_t> SharedWire::send(std::span<const replay::Outgoing> frames) {
  const auto wire = lease();
  if (!wire) return tl::unexpected(closed_error());
  const std::lock_guard lock(mutex_);
  const bool records = most_recorded_ > 0;
  const std::int64_t before = records ? wire->now() : 0;  // a response can arrive before send() returns
  auto sent = wire->send(frames);
  if (sent && records)
    for (std::size_t i = 0; i < *sent; ++i) note(std::max(frames[i].time, before), true, frames[i].frame);
  return sent;
}

WireResult<bool> SharedWire::writable(std::int64_t deadline) {
  const auto wire = lease();
  if (!wire) return tl::unexpected(closed_error());
  const std::lock_guard lock(mutex_);
  return wire->writable(std::min(deadline, wire->now() + signal_check_interval));
}

WireResult<bool> SharedWire::flush(std::int64_t deadline) {
  const auto wire = lease();
  if (!wire) return tl::unexpected(closed_error());
  const std::lock_guard lock(mutex_);
  return wire->flush(wire->capabilities().virtual_time ? deadline
                                                       : std::min(deadline, wire->now() + signal_check_interval));
}

WireResult<replay::WireCounters> SharedWire::counters() {
  const auto wire = lease();
  if (!wire) return tl::unexpected(closed_error());
  const std::lock_guard lock(mutex_);
  return wire->counters();
}

WireResult<replay::WireCapabilities> SharedWire::capabilities() {
  const auto wire = lease();
  if (!wire) return tl::unexpected(closed_error());
  const std::lock_guard lock(mutex_);
  return wire->capabilities();
}

WireResult<std::int64_t> SharedWire::now() {
  const auto wire = lease();
  if (!wire) return tl::unexpected(closed_error());
  const std::lock_guard lock(mutex_);
  return wire->now();
}

WireResult<int> SharedWire::descriptor() {
  const auto wire = lease();
  if (!wire) return tl::unexpected(closed_error());
  const std::lock_guard lock(mutex_);
  return wire->capabilities().virtual_time ? -1 : wire->descriptor();
}

void SharedWire::note(std::int64_t time, bool sent, Bytes bytes) {
  if (most_recorded_ == 0) return;
  if (recorded_.size() >= most_recorded_) recorded_.pop_front();
  recorded_.push_back({time, sent, {bytes.begin(), bytes.end()}});
}

void SharedWire::keep(std::int64_t time, bool sent, Bytes bytes) {
  const std::lock_guard lock(mutex_);
  note(time, sent, bytes);
}

void SharedWire::record(std::size_t most) {
  const std::lock_guard lock(mutex_);
  most_recorded_ = most;
  if (most == 0) recorded_.clear();
}

std::vector<Recorded> SharedWire::recorded() const {
  const std::lock_guard lock(mutex_);
  return {recorded_.begin(), recorded_.end()};
}

}  // namespace rdmawire::python
