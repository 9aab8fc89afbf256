#include "replay/wires/verbs_queues.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <deque>
#include <thread>

#include "dissectors/protocol/ethernet.hpp"
#include "dissectors/protocol/ip.hpp"
#include "replay/wires/clock.hpp"
#include "replay/wires/error.hpp"
#include "replay/wires/sending.hpp"

namespace rdmawire::replay {
namespace {

class Queues final : public Wire, public OutOfOrder {
 public:
  Queues(std::vector<std::unique_ptr<Wire>> wires, bool threads, std::string name)
      : name_(std::move(name)), wires_(std::move(wires)), parts_(wires_.size()) {
    capabilities_ = wires_.front()->capabilities();
    capabilities_.batch *= static_cast<std::uint32_t>(wires_.size());
    capabilities_.how += fmt::format(", {} QPs{}", wires_.size(), threads ? ", one thread each" : "");
    for (std::size_t i = 1; threads && i < wires_.size(); ++i)
      workers_.emplace_back([this, i](const std::stop_token& stop) { work(i, stop); });
  }
  ~Queues() override { close(); }

  [[nodiscard]] const std::string& name() const override { return name_; }
  [[nodiscard]] const WireCapabilities& capabilities() const override { return capabilities_; }
  [[nodiscard]] int descriptor() const override { return wires_.front()->descriptor(); }
  [[nodiscard]] WireCounters counters() const override {
    WireCounters sum = wires_.front()->counters();
    for (std::size_t i = 1; i < wires_.size(); ++i) {
      sum.sent += wires_[i]->counters().sent;
      sum.sent_bytes += wires_[i]->counters().sent_bytes;
    }
    return sum;
  }

  using Wire::send;
  WireResult<std::size_t> send(std::span<const Outgoing> frames) override {
    if (closed_) return tl::unexpected(closed_error(name_));
    return send_when_due(frames, capabilities_.batch, [this](std::span<const Outgoing> run) { return hand_over(run); });
  }
  WireResult<bool> writable(std::int64_t deadline) override {
    if (closed_) return tl::unexpected(closed_error(name_));
    if (failed_) return tl::unexpected(*failed_);
    for (const auto& wire : wires_)
      if (const auto done = wire->writable(deadline); !done || !*done) return done;
    post_backlogs();
    return true;
  }
  // Waits for all QPs, also if one of them failed, so that counters() is complete.
  WireResult<bool> flush(std::int64_t deadline) override {
    if (closed_) return tl::unexpected(closed_error(name_));
    bool empty = true;
    for (;;) {
      post_backlogs();
      empty = std::all_of(parts_.begin(), parts_.end(),
                          [](const Part& part) { return part.backlog.empty() || part.failed || part.down; });
      if (empty || now() >= deadline) break;
      wire_clock::sleep_until(std::min(deadline, now() + pause));
    }
    std::optional<WireError> down;
    for (std::size_t i = 0; i < wires_.size(); ++i) {
      const auto done = wires_[i]->flush(deadline);
      empty &= done && *done;
      if (done) continue;
      // Posted frames are sent when the carrier returns.
      if (done.error().kind == WireError::Kind::down)
        down = done.error();
      else
        fail(i, done.error());
    }
    if (failed_) return tl::unexpected(*failed_);
    for (const Part& part : parts_)
      if (!down && part.down) down = part.down;
    if (down) return tl::unexpected(*down);
    return empty;
  }
  WireResult<std::optional<Received>> receive(std::int64_t deadline) override {
    return wires_.front()->receive(deadline);
  }
  void close() override {
    if (closed_) return;
    closed_ = true;
    for (std::jthread& worker : workers_) worker.request_stop();
    round_.fetch_add(1);
    round_.notify_all();
    workers_.clear();
    for (const auto& wire : wires_) wire->close();
  }

 private:
  static constexpr std::int64_t pause = 5'000;

  /// The frames of one QP.
  struct Part {
    std::vector<Outgoing> frames;                   ///< of one call
    std::deque<std::vector<std::uint8_t>> backlog;  ///< accepted frames that the QP did not take yet
    WireResult<std::size_t> result;
    bool failed = false;            ///< the QP is in the Error state
    std::optional<WireError> down;  ///< the QP accepts no frame until the carrier returns
  };

  // The first error ends the wire. The QP is in the Error state, so that no frame may be skipped.
  void fail(std::size_t queue, WireError error) {
    parts_[queue].failed = true;
    if (failed_) return;
    if (error.kind == WireError::Kind::frame || error.kind == WireError::Kind::full)
      error.kind = WireError::Kind::system;
    failed_ = std::move(error);
  }

  void post(std::size_t queue) {
    Part& part = parts_[queue];
    part.result = part.frames.empty() ? WireResult<std::size_t>(0) : wires_[queue]->send(part.frames);
  }

  void post_backlogs() {
    for (std::size_t i = 0; i < parts_.size(); ++i) {
      Part& part = parts_[i];
      part.down.reset();
      while (!part.backlog.empty() && !part.failed) {
        const Outgoing frame{part.backlog.front(), 0};
        const auto taken = wires_[i]->send(std::span(&frame, 1));
        if (!taken && taken.error().kind == WireError::Kind::down)
          part.down = taken.error();
        else if (!taken)
          fail(i, taken.error());
        if (!taken || *taken == 0) break;
        part.backlog.pop_front();
      }
    }
  }

  /// Number of frames that the QP accepts at once. Later frames must not pass those that wait.
  [[nodiscard]] std::size_t room_of(std::size_t queue) const {
    if (!parts_[queue].backlog.empty()) return 0;
    auto* const room = dynamic_cast<SendRoom*>(wires_[queue].get());
    return room ? room->send_room() : 1;
  }

  void work(std::size_t queue, const std::stop_token& stop) {
    for (std::uint32_t seen = 0;;) {
      round_.wait(seen);
      seen = round_.load();
      if (stop.stop_requested()) return;
      post(queue);
      busy_.fetch_sub(1, std::memory_order_release);
    }
  }

  void post_all() {
    if (workers_.empty()) {
      for (std::size_t i = 0; i < wires_.size(); ++i) post(i);
      return;
    }
    busy_.store(static_cast<std::uint32_t>(workers_.size()));
    round_.fetch_add(1);
    round_.notify_all();
    post(0);
    while (busy_.load(std::memory_order_acquire) != 0) std::this_thread::yield();
  }

  // Accepts a prefix of the frames, which all QPs can accept at once.
  WireResult<std::size_t> hand_over(std::span<const Outgoing> frames) {
    post_backlogs();
    if (failed_) return tl::unexpected(*failed_);
    for (const Part& part : parts_)
      if (part.down) return tl::unexpected(*part.down);
    std::vector<std::size_t> rooms;
    for (std::size_t i = 0; i < parts_.size(); ++i) {
      parts_[i].frames.clear();
      rooms.push_back(room_of(i));
    }
    std::size_t accepted = 0;
    for (; accepted < frames.size(); ++accepted) {
      const Bytes frame = frames[accepted].frame;
      if (frame.size() < capabilities_.min_bytes || frame.size() > capabilities_.max_bytes) {
        // The QP returns the error without sending.
        if (accepted == 0) return wires_.front()->send(frames.first(1));
        break;
      }
      const std::size_t queue = hosts_hash(frame) % parts_.size();
      Part& part = parts_[queue];
      if (part.frames.size() == rooms[queue]) break;
      part.frames.push_back({frame, 0});
    }
    if (accepted == 0) return 0;
    post_all();
    for (std::size_t queue = 0; queue < parts_.size(); ++queue) {
      Part& part = parts_[queue];
      if (!part.result && part.result.error().kind == WireError::Kind::down)
        part.result = 0;
      else if (!part.result)
        fail(queue, part.result.error());
      // The device took fewer frames than its queue holds, or has no carrier.
      for (std::size_t i = part.result.value_or(part.frames.size()); i < part.frames.size(); ++i)
        part.backlog.emplace_back(part.frames[i].frame.begin(), part.frames[i].frame.end());
      part.frames.clear();
    }
    return accepted;
  }

  std::string name_;
  WireCapabilities capabilities_;
  std::vector<std::unique_ptr<Wire>> wires_;
  std::vector<Part> parts_;
  std::optional<WireError> failed_;
  bool closed_ = false;
  std::atomic<std::uint32_t> round_ = 0, busy_ = 0;
  std::vector<std::jthread> workers_;
};

std::uint64_t hash_of(Bytes bytes) {
  std::uint64_t hash = 0xcbf29ce484222325;  // FNV-1a
  for (const std::uint8_t byte : bytes) hash = (hash ^ byte) * 0x100000001b3;
  return hash ^ (hash >> 32);
}

/// Does not depend on the order of the two addresses.
std::uint64_t hash_of_pair(Bytes pair) {
  const std::uint64_t sum = hash_of(pair.first(pair.size() / 2)) + hash_of(pair.subspan(pair.size() / 2));
  return sum ^ (sum >> 17);
}

}  // namespace

std::uint64_t hosts_hash(Bytes frame) {
  std::size_t at = 12;  // EtherType
  if (frame.size() < Ethernet::size) return 0;
  std::uint64_t type = load_be<2>(frame.data() + at);
  while ((type == ethertype::vlan || type == ethertype::provider_vlan) && frame.size() >= at + 6) {
    at += Vlan::size;
    type = load_be<2>(frame.data() + at);
  }
  at += 2;
  constexpr std::size_t v4_addresses = 12, v6_addresses = 8;
  if (type == ethertype::ipv4 && frame.size() >= at + Ipv4::size)
    return hash_of_pair(frame.subspan(at + v4_addresses, 8));
  // RoCEv1 has a GRH with the same layout.
  if ((type == ethertype::ipv6 || type == ethertype::roce_v1) && frame.size() >= at + Ipv6::size)
    return hash_of_pair(frame.subspan(at + v6_addresses, 32));
  return hash_of_pair(frame.first(12));
}

std::unique_ptr<Wire> make_queues(std::vector<std::unique_ptr<Wire>> wires, bool threads, std::string name) {
  return std::make_unique<Queues>(std::move(wires), threads, std::move(name));
}

}  // namespace rdmawire::replay
