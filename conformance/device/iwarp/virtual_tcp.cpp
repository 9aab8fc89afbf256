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

/// The tester's end.
class VirtualTcp::Connection final : public replay::TcpConnection {
 public:
  Connection(VirtualTcp& host, const Link& link)
      : host_(host), link_(link.id), local_(link.tester), remote_(link.device) {}
  ~Connection() override {
    const std::lock_guard lock(host_.mutex_);
    Link* link = host_.find(link_);
    if (!link) return;
    link->taken = false;
    if (!link->tester_over && !(link->tester_fin && link->fin_came)) {
      host_.reset_by_tester(*link);
      host_.let_arrive();
    }
    host_.forget_if_done(link_);
    host_.told();
  }

  WireResult<void> send(Bytes bytes) override {
    const std::lock_guard lock(host_.mutex_);
    if (auto usable = check(); !usable) return usable;
    Link& link = *host_.find(link_);
    if (link.tester_fin) return down("our half is closed");
    return send_all(link, bytes);
  }
  WireResult<void> send_behind_fin(Bytes bytes) override {
    const std::lock_guard lock(host_.mutex_);
    if (auto usable = check(); !usable) return usable;
    Link& link = *host_.find(link_);
    if (!link.tester_fin) return down("our half is open");
    return send_all(link, bytes);
  }
  WireResult<void> close_half() override {
    const std::lock_guard lock(host_.mutex_);
    if (auto usable = check(); !usable) return usable;
    Link& link = *host_.find(link_);
    if (link.tester_fin) return {};
    host_.send(link, false, What::fin);
    host_.let_arrive();
    host_.told();
    return {};
  }
  void reset() override {
    const std::lock_guard lock(host_.mutex_);
    Link* link = host_.find(link_);
    if (!link || link->tester_over) return;
    host_.reset_by_tester(*link);
    host_.let_arrive();
    host_.told();
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
        host_.settle();  // there is room for more
        host_.told();
        return arrival;
      }
      if (!more) break;
      more = host_.step(deadline);
    }
    host_.told();
    return std::nullopt;
  }
  [[nodiscard]] std::uint32_t send_mss() const override { return mss(); }
  [[nodiscard]] const TcpAddress& local() const override { return local_; }
  [[nodiscard]] const TcpAddress& remote() const override { return remote_; }

 private:
  [[nodiscard]] std::uint32_t mss() const { return host_.options_.device_mss; }
  WireResult<void> send_all(Link& link, Bytes bytes) {
    for (; !bytes.empty() && !link.tester_over; bytes = bytes.subspan(std::min<std::size_t>(bytes.size(), mss()))) {
      host_.send(link, false, What::bytes, bytes.first(std::min<std::size_t>(bytes.size(), mss())));
      host_.let_arrive();
    }
    host_.told();
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

WireError VirtualTcp::ended() const {
  return {WireError::Kind::closed, 0, name_ + ": the case was ended from outside"};
}

std::int64_t VirtualTcp::now() const {
  const std::lock_guard lock(mutex_);
  return now_;
}

VirtualTcp::Link& VirtualTcp::new_link() {
  Link& link = links_[++last_link_];
  link.id = last_link_;
  // Far from each other and from where they wrap, and the same each time.
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
  const bool closed = link->tester_fin && link->device_fin && link->fin_came;
  if (link->tester_over || closed) {
    // What of it is still on its way finds nobody; the device must have heard of a reset first.
    const bool flies = std::ranges::any_of(flying_, [&](const auto& one) { return one.second.link == id; });
    if (flies) return;
    if (link->stream) device_.forgotten(*link->stream);
    links_.erase(id);
  }
}

// What passes.

TcpFrame VirtualTcp::frame_of(const Link& link, bool to_tester) const {
  TcpFrame frame;
  frame.from_mac = to_tester ? device_mac : tester_mac;
  frame.to_mac = to_tester ? tester_mac : device_mac;
  frame.from = to_tester ? link.device : link.tester;
  frame.to = to_tester ? link.tester : link.device;
  frame.seq = to_tester ? link.device_next : link.tester_next;
  const std::uint32_t heard = to_tester ? link.device_heard : link.tester_heard;
  if (heard != 0) frame.ack_number = heard;
  return frame;
}

void VirtualTcp::keep(bool to_tester, const TcpFrame& frame) {
  if (passed_.size() >= most_frames) return;
  TcpFrame numbered = frame;
  numbered.identification = ++identification_;
  const std::int64_t time = to_tester ? now_ + options_.delay : now_;
  passed_.emplace(time, PassedFrame{time, !to_tester, numbered.encode()});
}

void VirtualTcp::send(Link& link, bool to_tester, What what, Bytes bytes) {
  TcpFrame frame = frame_of(link, to_tester);
  frame.syn = what == What::syn || what == What::syn_ack;
  frame.fin = what == What::fin;
  frame.rst = what == What::reset;
  frame.payload = bytes;
  if (frame.syn) frame.mss = static_cast<std::uint16_t>(to_tester ? options_.device_mss : std::min(link.mss, 65'535U));
  keep(to_tester, frame);
  (to_tester ? link.device_next : link.tester_next) += frame.length();
  if (what == What::fin) (to_tester ? link.device_fin : link.tester_fin) = true;
  if (to_tester) link.unread += bytes.size();
  flying_.emplace(now_ + options_.delay, InFlightFrame{link.id, to_tester, what, {bytes.begin(), bytes.end()}});
}

void VirtualTcp::acknowledge(Link& link, bool to_tester) { keep(to_tester, frame_of(link, to_tester)); }

std::vector<PassedFrame> VirtualTcp::take_passed() {
  const std::lock_guard lock(mutex_);
  std::vector<PassedFrame> taken;
  const auto end = passed_.upper_bound(now_);
  for (auto at = passed_.begin(); at != end; ++at) taken.push_back(std::move(at->second));
  passed_.erase(passed_.begin(), end);
  return taken;
}

// What happens.

void VirtualTcp::go_to(std::int64_t time) {
  now_ = std::max(now_, time);
  device_.passed(now_);
}

bool VirtualTcp::step(std::int64_t until) {
  const std::int64_t arrival = flying_.empty() ? never : flying_.begin()->first;
  const std::int64_t alarm = device_.wakes();
  const std::int64_t next = std::min(arrival, alarm == never ? never : std::max(now_, alarm));
  if (next == never || next > until) {
    if (until != never) go_to(until);
    return false;
  }
  go_to(next);
  if (arrival <= now_) {
    const InFlightFrame flying = std::move(flying_.begin()->second);
    flying_.erase(flying_.begin());
    happen(flying);
  } else {
    device_.woken();
  }
  settle();
  return true;
}

void VirtualTcp::let_arrive() {
  const std::int64_t until = now_ + options_.delay;
  while (step(until)) {
  }
}

void VirtualTcp::happen(const InFlightFrame& flying) {
  Link* link = find(flying.link);
  if (!link) return;
  if (flying.to_tester)
    arrive_at_tester(*link, flying);
  else
    arrive_at_device(*link, flying);
  forget_if_done(flying.link);
}

void VirtualTcp::arrive_at_tester(Link& link, const InFlightFrame& flying) {
  if (link.tester_over) return;
  switch (flying.what) {
    case What::syn: {
      const auto listener = listeners_.find(link.tester.port);
      link.tester_heard = link.device_next;
      if (listener == listeners_.end()) return reset_by_tester(link);
      link.mss = listener->second.options.mss;
      return send(link, false, What::syn_ack);
    }
    case What::syn_ack:
      link.tester_heard = link.device_next;
      link.open = true;
      acknowledge(link, false);
      flying_.emplace(now_ + options_.delay, InFlightFrame{link.id, false, What::established, {}});
      return;
    case What::established: {
      link.open = true;
      const auto listener = listeners_.find(link.tester.port);
      if (listener == listeners_.end()) return reset_by_tester(link);
      listener->second.waiting.push_back(link.id);
      return;
    }
    case What::bytes:
      link.tester_heard += static_cast<std::uint32_t>(flying.bytes.size());
      acknowledge(link, false);
      link.inbox.push_back({TcpArrival::Kind::bytes, now_, flying.bytes});
      return;
    case What::fin:
      ++link.tester_heard;
      link.fin_came = true;
      acknowledge(link, false);
      link.inbox.push_back({TcpArrival::Kind::fin, now_, {}});
      return;
    case What::reset:
      if (!link.open) link.refused = ECONNREFUSED;
      link.tester_over = true;
      link.inbox.push_back({TcpArrival::Kind::reset, now_, {}});
      return;
  }
}

void VirtualTcp::arrive_at_device(Link& link, const InFlightFrame& flying) {
  if (link.device_over) return;
  switch (flying.what) {
    case What::syn:
      link.device_heard = link.tester_next;
      if (!device_.listens(link.device.port)) return reset_by_device(link);
      return send(link, true, What::syn_ack);
    case What::syn_ack:
      link.device_heard = link.tester_next;
      acknowledge(link, true);
      flying_.emplace(now_ + options_.delay, InFlightFrame{link.id, true, What::established, {}});
      link.device_open = true;
      return device_.answered(*link.stream, 0, link.mss);
    case What::established:
      if (!device_.listens(link.device.port)) return reset_by_device(link);
      link.device_open = true;
      link.stream = device_.connected(link.device.port, link.tester, link.mss);
      return;
    case What::bytes:
      link.device_heard += static_cast<std::uint32_t>(flying.bytes.size());
      acknowledge(link, true);
      return device_.received(*link.stream, flying.bytes);
    case What::fin:
      ++link.device_heard;
      acknowledge(link, true);
      return device_.peer_closed(*link.stream);
    case What::reset:
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
  send(link, true, What::reset);
  link.device_over = true;
  if (link.stream) device_.forgotten(*link.stream);
  link.stream.reset();
}

void VirtualTcp::reset_by_tester(Link& link) {
  send(link, false, What::reset);
  link.tester_over = true;
  link.inbox.clear();
  link.unread = 0;
}

void VirtualTcp::settle() {
  while (const auto wanted = device_.next_wanted()) {
    if (wanted->to.address != options_.tester) {
      device_.answered(wanted->stream, EHOSTUNREACH, 0);
      device_.forgotten(wanted->stream);
      continue;
    }
    Link& link = new_link();
    link.stream = wanted->stream;
    link.device.port = wanted->port;
    link.tester.port = wanted->to.port;
    send(link, true, What::syn);
  }
  for (auto& [id, link] : links_) {
    while (link.device_open && !link.device_over && link.stream) {
      const Output output =
          device_.take(*link.stream, options_.window > link.unread ? options_.window - link.unread : 0);
      if (output.empty()) break;
      for (const auto& segment : output.segments) send(link, true, What::bytes, segment);
      if (output.fin) send(link, true, What::fin);
      if (output.reset) reset_by_device(link);
    }
  }
}

// The tester's calls.

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
    told();
    return missing("nobody answers there");
  }
  Link& link = new_link();
  const std::uint32_t id = link.id;
  link.mss = options.mss;
  link.device.port = to.port;
  link.tester.port = next_port_;
  next_port_ = next_port_ == 65'535 ? first_port : static_cast<std::uint16_t>(next_port_ + 1);
  link.taken = true;
  send(link, false, What::syn);
  while (!link.refused && !link.device_open && !interrupted_ && step(deadline)) {
  }
  told();
  if (interrupted_ || link.refused || !link.device_open) {
    link.taken = false;
    const bool refused = link.refused != 0;
    if (!link.tester_over) reset_by_tester(link);
    let_arrive();
    forget_if_done(id);
    if (interrupted_) return tl::unexpected(ended());
    return missing(refused ? "it refuses the connection" : "nobody answered in time");
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
        WireError{WireError::Kind::system, EADDRINUSE, fmt::format("{}: port {} is listened to", name_, port)});
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
  let_arrive();
  told();
}

WireResult<std::unique_ptr<replay::TcpConnection>> VirtualTcp::accept(std::uint16_t port, std::int64_t deadline) {
  const std::lock_guard lock(mutex_);
  for (bool more = true;;) {
    if (interrupted_) return tl::unexpected(ended());
    const auto found = listeners_.find(port);
    if (found == listeners_.end())
      return tl::unexpected(
          WireError{WireError::Kind::missing, EINVAL, fmt::format("{}: nobody listens to port {}", name_, port)});
    auto& waiting = found->second.waiting;
    if (!waiting.empty()) {
      Link* link = find(waiting.front());
      waiting.pop_front();
      if (!link) continue;
      link->taken = true;
      told();
      return std::make_unique<Connection>(*this, *link);
    }
    if (!more) break;
    more = step(deadline);
  }
  told();
  return nullptr;
}

WireResult<void> VirtualTcp::pass(std::int64_t until) {
  const std::lock_guard lock(mutex_);
  while (!interrupted_ && step(until)) {
  }
  told();
  if (interrupted_) return tl::unexpected(ended());
  return {};
}

}  // namespace rdmawire::endpoint
