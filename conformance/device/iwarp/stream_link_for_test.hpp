#pragma once
/// For tests only: two endpoints on an in-memory TCP connection in virtual time.

#include <algorithm>
#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "conformance/device/iwarp/endpoint.hpp"

namespace rdmawire::endpoint::testing {

class StreamLink {
 public:
  StreamLink(Endpoint& initiator, Endpoint& responder) : ends_{&initiator, &responder} {}

  /// Returns how many of the waiting bytes arrive at once. Default: all.
  std::function<std::size_t(std::size_t)> piece = [](std::size_t waiting) { return waiting; };
  std::int64_t now = 0;
  std::int64_t delay = 1000;
  /// Called for each sent segment, FIN and reset. The segment is empty for a FIN or a reset.
  std::function<void(int from, Bytes segment, bool fin, bool reset)> observer = [](int, Bytes, bool, bool) {};
  /// Bytes sent by each endpoint.
  std::vector<std::uint8_t> sent[2];
  std::vector<std::size_t> segments[2];  ///< sizes of the segments

  /// Run until only timers are left.
  void run() {
    for (bool moved = true; moved;) {
      moved = false;
      for (int from : {0, 1}) moved = step(from) || moved;
    }
  }
  /// Run, including timers, up to `until`.
  void run_until(std::int64_t until) {
    for (;;) {
      run();
      const std::int64_t next = std::min(ends_[0]->wakes(), ends_[1]->wakes());
      if (next > until) break;
      now = std::max(now, next);
      for (Endpoint* end : ends_)
        if (end->wakes() <= now) end->woken(now);
    }
    now = until;
  }

 private:
  bool step(int from) {
    Output output = ends_[from]->take(now);
    const bool moved = !output.empty();
    std::deque<std::uint8_t>& way = way_[from];
    for (const auto& segment : output.segments) {
      way.insert(way.end(), segment.begin(), segment.end());
      sent[from].insert(sent[from].end(), segment.begin(), segment.end());
      segments[from].push_back(segment.size());
      observer(from, segment, false, false);
    }
    if (output.fin || output.reset) observer(from, {}, output.fin && !output.reset, output.reset);
    if (moved) now += delay;
    Endpoint& to = *ends_[1 - from];
    if (output.reset) {
      way.clear();
      to.lost(now);
      return true;
    }
    while (!way.empty()) {
      const std::size_t bytes = std::clamp<std::size_t>(piece(way.size()), 1, way.size());
      const std::vector<std::uint8_t> arriving(way.begin(), way.begin() + static_cast<std::ptrdiff_t>(bytes));
      way.erase(way.begin(), way.begin() + static_cast<std::ptrdiff_t>(bytes));
      to.received(arriving, now);
    }
    if (output.fin) to.peer_closed(now);
    return moved;
  }

  Endpoint* ends_[2];
  std::deque<std::uint8_t> way_[2];
};

/// An application with memory, one completion queue and an endpoint.
struct Consumer {
  explicit Consumer(const machines::MpaSettings& mpa = {}, RnicOptions options = {}, std::uint32_t emss = 1460,
                    std::optional<Fault> fault = std::nullopt)
      : own(std::make_unique<Rnic>(options)), rnic(*own) {
    if (fault) rnic.set_fault(*fault);
    begin(mpa, emss);
  }
  /// A second stream of the same RNIC with its own protection domain.
  Consumer(Consumer& other, const machines::MpaSettings& mpa) : rnic(other.rnic) { begin(mpa, 1460); }

  std::unique_ptr<Rnic> own;
  Rnic& rnic;
  std::uint32_t pd = 0, cq = 0;
  std::uint64_t buffer = 0;
  std::uint32_t stag = 0, region = 0;
  static constexpr std::uint32_t bytes = 64 << 10;
  std::unique_ptr<Endpoint> end;

  [[nodiscard]] device::Sge piece(std::uint64_t offset, std::uint32_t length) const {
    return {buffer + offset, length, stag};
  }
  MutableBytes at(std::uint64_t offset, std::uint64_t length) { return rnic.memory().at(buffer + offset, length); }
  void fill(std::uint64_t offset, std::string_view text) { std::ranges::copy(text, at(offset, text.size()).begin()); }
  std::string text(std::uint64_t offset, std::uint64_t length) {
    const MutableBytes found = at(offset, length);
    return {found.begin(), found.end()};
  }
  void receive(std::uint64_t id, std::uint64_t offset, std::uint32_t length) {
    (void)end->post_receive({.id = id, .sges = {piece(offset, length)}});
  }
  std::vector<ConnectionEvent> events() {
    std::vector<ConnectionEvent> all;
    while (auto event = end->next_event()) all.push_back(std::move(*event));
    return all;
  }
  std::vector<device::Completion> poll() { return rnic.poll(cq); }

  static constexpr std::uint32_t all_rights = device::access::local_write | device::access::remote_write |
                                              device::access::remote_read | device::access::remote_atomic |
                                              device::access::mw_bind;

 private:
  void begin(const machines::MpaSettings& mpa, std::uint32_t emss) {
    pd = rnic.alloc_pd();
    cq = rnic.create_cq(256);
    buffer = *rnic.memory().allocate(bytes);
    device::Region* made = *rnic.register_region(pd, buffer, bytes, all_rights);
    stag = made->key;
    region = made->handle;
    EndpointOptions options{.pd = pd, .send_cq = cq, .receive_cq = cq};
    options.mpa = mpa;
    options.emss = emss;
    end = std::make_unique<Endpoint>(rnic, options);
  }
};

}  // namespace rdmawire::endpoint::testing
