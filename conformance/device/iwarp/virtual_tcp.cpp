#include "conformance/device/iwarp/virtual_tcp.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>

namespace rdmawire::endpoint {

using replay::PassedFrame;
using replay::TcpAddress;
using replay::TcpArrival;
using replay::TcpFrame;
using replay::TcpOptions;
using replay::WireError;
using replay::WireResult;

namespace {

constexpr replay::MacAddress tester_mac = 0x020000000c01, device_mac = 0x020000000001;
constexpr std::uint16_t first_port = 40'000;

std::string text_of(const TcpAddress& address) {
  return fmt::format("{} port {}", to_string(address.address), address.port);
}

}  // namespace

/// The tester's side of a connection.
class VirtualTcp::Connection final : public replay::TcpConnection {
 public:
  Connection(VirtualTcp& host, const Link& link)
      : host_(host), link_(link.id), local_(link.tester), remote_(link.device) {}
  ~Connection() override {
    const std::lock_guard lock(host_.mutex_);
    Link* link = host_.find(link_);
    if (!link) return;
    link->taken = false;
    if (!link->tester_over && !(link->tester_fin && link->fin_received)) {
      host_.reset_by_tester(*link);
      host_.deliver();
    }
    host_.forget_if_done(link_);
    host_.notify_device_event();
  }

  WireResult<void> send(Bytes bytes) override {
    const std::lock_guard lock(host_.mutex_);
    if (auto usable = check(); !usable) return usable;
    Link& link = *host_.find(link_);
    if (link.tester_fin) return down("this side is already closed");
    return send_all(link, bytes);
  }
  WireResult<void> send_behind_fin(Bytes bytes) override {
    const std::lock_guard lock(host_.mutex_);
    if (auto usable = check(); !usable) return usable;
    Link& link = *host_.find(link_);
    if (!link.tester_fin) return down("this side is still open");
    return send_all(link, bytes);
  }
  WireResult<void> close_half() override {
    const std::lock_guard lock(host_.mutex_);
    if (auto usable = check(); !usable) return usable;
    Link& link = *host_.find(link_);
    if (link.tester_fin) return {};
    host_.send(link, false, SegmentKind::fin);
    host_.deliver();
    host_.notify_device_event();
    return {};
  }
  void reset() override {
    const std::lock_guard lock(host_.mutex_);
    Link* link = host_.find(link_);
    if (!link || link->tester_over) return;
    host_.reset_by_tester(*link);
    host_.deliver();
    host_.notify_device_event();
  }
  WireResult<std::optional<TcpArrival>> receive(std::int64_t deadline) override {
    const std::lock_guard lock(host_.mutex_);
    for (bool more = true;;) {
      if (host_.interrupted_) return tl::unexpected(host_.ended());
      Link& link = *host_.find(link_);
      if (!link.inbox.empty()) {
        TcpArrival arrival = std::move(link.inbox.front());
        link.inbox.pop_front();
        link.unread -= arrival.bytes.size();
        host_.settle();  // the device may send more, because the receive window has space again
        host_.notify_device_event();
        return arrival;
      }
      if (!more) break;
      more = host_.step(deadline);
    }
    host_.notify_device_event();
    return std::nullopt;
  }
  [[nodiscard]] std::uint32_t send_mss() const override { return mss(); }
  [[nodiscard]] const TcpAddress& local() const override { return local_; }
  [[nodiscard]] const TcpAddress& remote() const override { return remote_; }

 private:
  [[nodiscard]] std::uint32_t mss() const { return host_.options_.device_mss; }
  WireResult<void> send_all(Link& link, Bytes bytes) {
    for (; !bytes.empty() && !link.tester_over; bytes = bytes.subspan(std::min<std::size_t>(bytes.size(), mss()))) {
      host_.send(link, false, SegmentKind::bytes, bytes.first(std::min<std::size_t>(bytes.size(), mss())));
      host_.deliver();
    }
    host_.notify_device_event();
    return {};
  }
  [[nodiscard]] tl::unexpected<WireError> down(const char* why) const {
    return tl::unexpected(WireError{WireError::Kind::down, 0, fmt::format("to {}: {}", text_of(remote_), why)});
  }
  [[nodiscard]] WireResult<void> check() const {
    if (host_.interrupted_) return tl::unexpected(host_.ended());
    if (host_.find(link_)->tester_over) return down("the connection was reset");
    return {};
  }

  VirtualTcp& host_;
  std::uint32_t link_;
  TcpAddress local_, remote_;
};

WireError VirtualTcp::ended() const { return {WireError::Kind::closed, 0, name_ + ": interrupted by another thread"}; }

std::int64_t VirtualTcp::now() const {
  const std::lock_guard lock(mutex_);
  return now_;
}

VirtualTcp::Link& VirtualTcp::new_link() {
  Link& link = links_[++last_link_];
  link.id = last_link_;
  // Initial sequence numbers are the same in each run, and do not wrap soon.
  link.tester_next = 0x1000'0000 + 0x0001'0000 * (last_link_ & 0xfff);
  link.device_next = 0x5000'0000 + 0x0001'0000 * (last_link_ & 0xfff);
  link.tester.address = options_.tester;
  link.device.address = options_.device;
  return link;
}

VirtualTcp::Link* VirtualTcp::find(std::uint32_t id) {
  const auto found = links_.find(id);
  return found == links_.end() ? nullptr : &found->second;
}

void VirtualTcp::forget_if_done(std::uint32_t id) {
  const Link* link = find(id);
  if (!link || link->taken) return;
  const bool closed = link->tester_fin && link->device_fin && link->fin_received;
  if (link->tester_over || closed) {
    // Keep the connection until all frames in flight have arrived, so that the device receives a reset.
    const bool flies = std::ranges::any_of(in_flight_, [&](const auto& one) { return one.second.link == id; });
    if (flies) return;
    if (link->stream) device_.forgotten(*link->stream);
    links_.erase(id);
  }
}

// Frames

TcpFrame VirtualTcp::frame_of(const Link& link, bool to_tester) const {
  TcpFrame frame;
  frame.from_mac = to_tester ? device_mac : tester_mac;
  frame.to_mac = to_tester ? tester_mac : device_mac;
  frame.from = to_tester ? link.device : link.tester;
  frame.to = to_tester ? link.tester : link.device;
  frame.seq = to_tester ? link.device_next : link.tester_next;
  const std::uint32_t expected = to_tester ? link.device_expected : link.tester_expected;
  if (expected != 0) frame.ack_number = expected;
  return frame;
}

void VirtualTcp::record_frame(bool to_tester, const TcpFrame& frame) {
  if (passed_.size() >= most_frames) return;
  TcpFrame numbered = frame;
  numbered.identification = ++identification_;
  const std::int64_t time = to_tester ? now_ + options_.delay : now_;
  passed_.emplace(time, PassedFrame{time, !to_tester, numbered.encode()});
}

void VirtualTcp::send(Link& link, bool to_tester, SegmentKind kind, Bytes bytes) {
  TcpFrame frame = frame_of(link, to_tester);
  frame.syn = kind == SegmentKind::syn || kind == SegmentKind::syn_ack;
  frame.fin = kind == SegmentKind::fin;
  frame.rst = kind == SegmentKind::reset;
  frame.payload = bytes;
  if (frame.syn) frame.mss = static_cast<std::uint16_t>(to_tester ? options_.device_mss : std::min(link.mss, 65'535U));
  record_frame(to_tester, frame);
  (to_tester ? link.device_next : link.tester_next) += frame.length();
  if (kind == SegmentKind::fin) (to_tester ? link.device_fin : link.tester_fin) = true;
  if (to_tester) link.unread += bytes.size();
  in_flight_.emplace(now_ + options_.delay, InFlightFrame{link.id, to_tester, kind, {bytes.begin(), bytes.end()}});
}

void VirtualTcp::acknowledge(Link& link, bool to_tester) { record_frame(to_tester, frame_of(link, to_tester)); }

std::vector<PassedFrame> VirtualTcp::take_passed() {
  const std::lock_guard lock(mutex_);
  std::vector<PassedFrame> taken;
  const auto end = passed_.upper_bound(now_);
  for (auto at = passed_.begin(); at != end; ++at) taken.push_back(std::move(at->second));
  passed_.erase(passed_.begin(), end);
  return taken;
}

// Events

void VirtualTcp::go_to(std::int64_t time) {
  now_ = std::max(now_, time);
  device_.passed(now_);
}

bool VirtualTcp::step(std::int64_t until) {
  const std::int64_t arrival = in_flight_.empty() ? never : in_flight_.begin()->first;
  const std::int64_t alarm = device_.wakes();
  const std::int64_t next = std::min(arrival, alarm == never ? never : std::max(now_, alarm));
  if (next == never || next > until) {
    if (until != never) go_to(until);
    return false;
  }
  go_to(next);
  if (arrival <= now_) {
    const InFlightFrame frame = std::move(in_flight_.begin()->second);
    in_flight_.erase(in_flight_.begin());
    happen(frame);
  } else {
    device_.woken();
  }
  settle();
  return true;
}

void VirtualTcp::deliver() {
  const std::int64_t until = now_ + options_.delay;
  while (step(until)) {
  }
}

void VirtualTcp::happen(const InFlightFrame& frame) {
  Link* link = find(frame.link);
  if (!link) return;
  if (frame.to_tester)
    arrive_at_tester(*link, frame);
  else
    arrive_at_device(*link, frame);
  forget_if_done(frame.link);
}

void VirtualTcp::arrive_at_tester(Link& link, const InFlightFrame& frame) {
  if (link.tester_over) return;
  switch (frame.kind) {
    case SegmentKind::syn: {
      const auto listener = listeners_.find(link.tester.port);
      link.tester_expected = link.device_next;
      if (listener == listeners_.end()) return reset_by_tester(link);
      link.mss = listener->second.options.mss;
      return send(link, false, SegmentKind::syn_ack);
    }
    case SegmentKind::syn_ack:
      link.tester_expected = link.device_next;
      link.open = true;
      acknowledge(link, false);
      in_flight_.emplace(now_ + options_.delay, InFlightFrame{link.id, false, SegmentKind::established, {}});
      return;
    case SegmentKind::established: {
      link.open = true;
      const auto listener = listeners_.find(link.tester.port);
      if (listener == listeners_.end()) return reset_by_tester(link);
      listener->second.waiting.push_back(link.id);
      return;
    }
    case SegmentKind::bytes:
      link.tester_expected += static_cast<std::uint32_t>(frame.bytes.size());
      acknowledge(link, false);
      link.inbox.push_back({TcpArrival::Kind::bytes, now_, frame.bytes});
      return;
    case SegmentKind::fin:
      ++link.tester_expected;
      link.fin_received = true;
      acknowledge(link, false);
      link.inbox.push_back({TcpArrival::Kind::fin, now_, {}});
      return;
    case SegmentKind::reset:
      if (!link.open) link.refused = ECONNREFUSED;
      link.tester_over = true;
      link.inbox.push_back({TcpArrival::Kind::reset, now_, {}});
      return;
  }
}

void VirtualTcp::arrive_at_device(Link& link, const InFlightFrame& frame) {
  if (link.device_over) return;
  switch (frame.kind) {
    case SegmentKind::syn:
      link.device_expected = link.tester_next;
      if (!device_.listens(link.device.port)) return reset_by_device(link);
      return send(link, true, SegmentKind::syn_ack);
    case SegmentKind::syn_ack:
      link.device_expected = link.tester_next;
      acknowledge(link, true);
      in_flight_.emplace(now_ + options_.delay, InFlightFrame{link.id, true, SegmentKind::established, {}});
      link.device_open = true;
      return device_.answered(*link.stream, 0, link.mss);
    case SegmentKind::established:
      if (!device_.listens(link.device.port)) return reset_by_device(link);
      link.device_open = true;
      link.stream = device_.connected(link.device.port, link.tester, link.mss);
      return;
    case SegmentKind::bytes:
      link.device_expected += static_cast<std::uint32_t>(frame.bytes.size());
      acknowledge(link, true);
      return device_.received(*link.stream, frame.bytes);
    case SegmentKind::fin:
      ++link.device_expected;
      acknowledge(link, true);
      return device_.peer_closed(*link.stream);
    case SegmentKind::reset:
      link.device_over = true;
      if (!link.stream) return;
      if (link.device_open)
        device_.lost(*link.stream);
      else
        device_.answered(*link.stream, ECONNREFUSED, 0);
      device_.forgotten(*link.stream);
      link.stream.reset();
      return;
  }
}

void VirtualTcp::reset_by_device(Link& link) {
  send(link, true, SegmentKind::reset);
  link.device_over = true;
  if (link.stream) device_.forgotten(*link.stream);
  link.stream.reset();
}

void VirtualTcp::reset_by_tester(Link& link) {
  send(link, false, SegmentKind::reset);
  link.tester_over = true;
  link.inbox.clear();
  link.unread = 0;
}

void VirtualTcp::settle() {
  while (const auto pending = device_.next_connect_request()) {
    if (pending->to.address != options_.tester) {
      device_.answered(pending->stream, EHOSTUNREACH, 0);
      device_.forgotten(pending->stream);
      continue;
    }
    Link& link = new_link();
    link.stream = pending->stream;
    link.device.port = pending->port;
    link.tester.port = pending->to.port;
    send(link, true, SegmentKind::syn);
  }
  for (auto& [id, link] : links_) {
    while (link.device_open && !link.device_over && link.stream) {
      const Output output =
          device_.take(*link.stream, options_.window > link.unread ? options_.window - link.unread : 0);
      if (output.empty()) break;
      for (const auto& segment : output.segments) send(link, true, SegmentKind::bytes, segment);
      if (output.fin) send(link, true, SegmentKind::fin);
      if (output.reset) reset_by_device(link);
    }
  }
}

// Calls of the tester

WireResult<std::unique_ptr<replay::TcpConnection>> VirtualTcp::connect(const TcpAddress& to, const TcpOptions& options,
                                                                       std::int64_t deadline) {
  const std::lock_guard lock(mutex_);
  const auto missing = [&](const char* why) {
    return tl::unexpected(WireError{WireError::Kind::missing, ECONNREFUSED, fmt::format("{}: {}", text_of(to), why)});
  };
  if (interrupted_) return tl::unexpected(ended());
  if (to.address != options_.device) {
    while (step(deadline)) {
    }
    notify_device_event();
    return missing("no host has this address");
  }
  Link& link = new_link();
  const std::uint32_t id = link.id;
  link.mss = options.mss;
  link.device.port = to.port;
  link.tester.port = next_port_;
  next_port_ = next_port_ == 65'535 ? first_port : static_cast<std::uint16_t>(next_port_ + 1);
  link.taken = true;
  send(link, false, SegmentKind::syn);
  while (!link.refused && !link.device_open && !interrupted_ && step(deadline)) {
  }
  notify_device_event();
  if (interrupted_ || link.refused || !link.device_open) {
    link.taken = false;
    const bool refused = link.refused != 0;
    if (!link.tester_over) reset_by_tester(link);
    deliver();
    forget_if_done(id);
    if (interrupted_) return tl::unexpected(ended());
    return missing(refused ? "connection refused" : "no response before the deadline");
  }
  return std::make_unique<Connection>(*this, link);
}

WireResult<std::uint16_t> VirtualTcp::listen(std::uint16_t port, const TcpOptions& options) {
  const std::lock_guard lock(mutex_);
  if (interrupted_) return tl::unexpected(ended());
  if (port == 0)
    for (port = 20'000; listeners_.contains(port);) ++port;
  if (listeners_.contains(port))
    return tl::unexpected(
        WireError{WireError::Kind::system, EADDRINUSE, fmt::format("{}: port {} is in use", name_, port)});
  listeners_[port].options = options;
  return port;
}

void VirtualTcp::stop_listening(std::uint16_t port) {
  const std::lock_guard lock(mutex_);
  const auto found = listeners_.find(port);
  if (found == listeners_.end()) return;
  const auto waiting = std::move(found->second.waiting);
  listeners_.erase(found);
  for (const std::uint32_t id : waiting)
    if (Link* link = find(id); link && !link->tester_over) reset_by_tester(*link);
  deliver();
  notify_device_event();
}

WireResult<std::unique_ptr<replay::TcpConnection>> VirtualTcp::accept(std::uint16_t port, std::int64_t deadline) {
  const std::lock_guard lock(mutex_);
  for (bool more = true;;) {
    if (interrupted_) return tl::unexpected(ended());
    const auto found = listeners_.find(port);
    if (found == listeners_.end())
      return tl::unexpected(
          WireError{WireError::Kind::missing, EINVAL, fmt::format("{}: no listener at port {}", name_, port)});
    auto& waiting = found->second.waiting;
    if (!waiting.empty()) {
      Link* link = find(waiting.front());
      waiting.pop_front();
      if (!link) continue;
      link->taken = true;
      notify_device_event();
      return std::make_unique<Connection>(*this, *link);
    }
    if (!more) break;
    more = step(deadline);
  }
  notify_device_event();
  return nullptr;
}

WireResult<void> VirtualTcp::pass(std::int64_t until) {
  const std::lock_guard lock(mutex_);
  while (!interrupted_ && step(until)) {
  }
  notify_device_event();
  if (interrupted_) return tl::unexpected(ended());
  return {};
}

}  // namespace rdmawire::endpoint
