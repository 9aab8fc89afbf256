#include "replay/wires/verbs_queues.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <deque>
#include <thread>

#include "dissectors/protocol/ethernet.hpp"
#include "dissectors/protocol/infiniband.hpp"
#include "dissectors/protocol/ip.hpp"
#include "dissectors/protocol/transport.hpp"
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
    return send_when_due(frames, capabilities_.batch, [this](std::span<const Outgoing> run) { return hand_over(run); });
  }
  WireResult<bool> writable(std::int64_t deadline) override {
    return all([deadline](Wire& wire) { return wire.writable(deadline); });
  }
  WireResult<bool> flush(std::int64_t deadline) override {
    return all([deadline](Wire& wire) { return wire.flush(deadline); });
  }
  WireResult<std::optional<Received>> receive(std::int64_t deadline) override {
    return wires_.front()->receive(deadline);
  }
  void close() override {
    for (std::jthread& worker : workers_) worker.request_stop();
    round_.fetch_add(1);
    round_.notify_all();
    workers_.clear();
    for (const auto& wire : wires_) wire->close();
  }

 private:
  /// The frames of one call for one QP.
  struct Part {
    std::vector<Outgoing> frames;
    std::vector<std::size_t> places;  ///< in the call
    WireResult<std::size_t> result;
  };

  template <class Call>
  WireResult<bool> all(const Call& call) {
    for (const auto& wire : wires_)
      if (const auto done = call(*wire); !done || !*done) return done;
    return true;
  }

  void post(std::size_t queue) {
    Part& part = parts_[queue];
    part.result = part.frames.empty() ? WireResult<std::size_t>(0) : wires_[queue]->send(part.frames);
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

  WireResult<std::size_t> hand_over(std::span<const Outgoing> frames) {
    for (Part& part : parts_) {
      part.frames.clear();
      part.places.clear();
    }
    // Frames of an earlier call that one QP accepted, and that follow a frame that another one did not.
    accepted_.resize(std::max(accepted_.size(), frames.size()));
    for (std::size_t i = 0; i < frames.size(); ++i) {
      if (accepted_[i]) continue;
      Part& part = parts_[flow_hash(frames[i].frame) % parts_.size()];
      part.frames.push_back({frames[i].frame, 0});
      part.places.push_back(i);
    }
    post_all();
    std::optional<WireError> error;
    for (const Part& part : parts_) {
      for (std::size_t i = 0; part.result && i < *part.result; ++i) accepted_[part.places[i]] = true;
      if (!part.result && part.places.front() == 0) error = part.result.error();
    }
    std::size_t prefix = 0;
    while (prefix < frames.size() && accepted_[prefix]) ++prefix;
    accepted_.erase(accepted_.begin(), accepted_.begin() + static_cast<std::ptrdiff_t>(prefix));
    if (!error) return prefix;
    // The caller continues after a frame that is invalid.
    if (error->kind == WireError::Kind::frame) accepted_.pop_front();
    return tl::unexpected(*error);
  }

  std::string name_;
  WireCapabilities capabilities_;
  std::vector<std::unique_ptr<Wire>> wires_;
  std::vector<Part> parts_;
  std::deque<bool> accepted_;  ///< of the next frames
  std::atomic<std::uint32_t> round_ = 0, busy_ = 0;
  std::vector<std::jthread> workers_;
};

std::uint64_t mix(std::uint64_t hash, Bytes bytes) {
  for (const std::uint8_t byte : bytes) hash = (hash ^ byte) * 0x100000001b3;  // FNV-1a
  return hash;
}

}  // namespace

std::uint64_t flow_hash(Bytes frame) {
  std::uint64_t hash = 0xcbf29ce484222325;
  std::size_t at = 12;  // EtherType
  if (frame.size() < Ethernet::size) return 0;
  std::uint64_t type = load_be<2>(frame.data() + at);
  while ((type == ethertype::vlan || type == ethertype::provider_vlan) && frame.size() >= at + 6) {
    at += Vlan::size;
    type = load_be<2>(frame.data() + at);
  }
  at += 2;
  std::size_t transport = 0;
  std::uint8_t protocol = 0;
  if (type == ethertype::ipv4 && frame.size() >= at + Ipv4::size) {
    hash = mix(hash, frame.subspan(at + 12, 8));
    protocol = frame[at + 9];
    const bool later_fragment = (load_be<2>(frame.data() + at + 6) & 0x1fff) != 0;
    if (!later_fragment) transport = at + (frame[at] & 15U) * 4U;
  } else if (type == ethertype::ipv6 && frame.size() >= at + Ipv6::size) {
    hash = mix(hash, frame.subspan(at + 8, 32));
    protocol = frame[at + 6];
    transport = at + Ipv6::size;
  } else {
    hash = mix(hash, frame.first(12));
  }
  if (transport != 0 && (protocol == ip_protocol::udp || protocol == ip_protocol::tcp) &&
      frame.size() >= transport + 4) {
    hash = mix(hash, frame.subspan(transport, 4));
    // The destination QP: IBTA vol 1, 9.2.
    const bool roce = protocol == ip_protocol::udp && load_be<2>(frame.data() + transport + 2) == 4791;
    if (roce && frame.size() >= transport + 16) hash = mix(hash, frame.subspan(transport + 13, 3));
  }
  return hash ^ (hash >> 32);
}

std::unique_ptr<Wire> make_queues(std::vector<std::unique_ptr<Wire>> wires, bool threads, std::string name) {
  return std::make_unique<Queues>(std::move(wires), threads, std::move(name));
}

}  // namespace rdmawire::replay
