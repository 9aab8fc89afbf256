#include "replay/switch/switch.hpp"

#include <fmt/format.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <deque>
#include <map>
#include <thread>
#include <unordered_map>

#include "dissectors/protocol/ethernet.hpp"
#include "replay/wires/clock.hpp"
#include "replay/wires/descriptor.hpp"

namespace rdmawire::replay {
namespace {

constexpr std::size_t frames_a_round = 64;
constexpr std::int64_t again_when_blocked = 100'000;     // retry interval of a full queue
constexpr std::int64_t again_without_poll = 1'000'000;   // poll interval of a wire without descriptor
constexpr std::int64_t again_when_broken = 100'000'000;  // retry interval of a wire with an error

std::uint64_t destination_of(Bytes frame) { return load_be(frame.data(), 6); }
std::uint64_t source_of(Bytes frame) { return load_be(frame.data() + 6, 6); }
bool is_group(std::uint64_t address) { return address >> 40 & 1; }

}  // namespace

class Switch::Fabric {
 public:
  Fabric(std::vector<std::unique_ptr<Wire>> wires, SwitchOptions options)
      : options_(std::move(options)),
        engine_(std::move(options_.faults), options_.fault_options),
        wake_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
    for (auto& wire : wires) ports_.push_back({std::move(wire), {}, {}, {}, 0, 0});
    for (auto* tap : {&options_.arrived, &options_.left, &options_.passed}) {
      if (!*tap) continue;
      for (const Port& port : ports_) {
        captures::Interface interface;
        interface.name = port.wire->name();
        if (const auto added = (*tap)->add_interface(interface); !added) tap_failed(*tap, added.error());
      }
    }
    thread_ = std::thread([this] { run(); });
  }
  ~Fabric() { stop(); }

  void stop() {
    const std::lock_guard once(stopping_);
    if (!thread_.joinable()) return;
    stop_ = true;
    const std::uint64_t one = 1;
    if (write(wake_.get(), &one, sizeof one) < 0) { /* it is readable already */
    }
    thread_.join();
    const std::lock_guard lock(mutex_);
    leave(engine_.finish(wire_clock::now()));
    for (auto& [time, frame] : delayed_) enqueue(frame.bytes, frame.side, frame.faults);
    delayed_.clear();
    send_all();
    for (Port& port : ports_) port.wire->close();
    for (auto* tap : {&options_.arrived, &options_.left, &options_.passed})
      if (*tap)
        if (const auto closed = (*tap)->close(); !closed) tap_failed(*tap, closed.error());
  }

  void set_faults(FaultProgram faults, const FaultEngineOptions& options) {
    const std::lock_guard lock(mutex_);
    leave(engine_.finish(wire_clock::now()));
    engine_ = FaultEngine(std::move(faults), options);
  }

  template <class Read>
  auto read(Read what) const {
    const std::lock_guard lock(mutex_);
    return what(*this);
  }
  [[nodiscard]] SwitchCounters counters() const {
    SwitchCounters all;
    for (const Port& port : ports_) all.ports.push_back(port.counters);
    all.delayed_full = delayed_full_;
    all.tap_trouble = tap_trouble_;
    return all;
  }
  [[nodiscard]] const FaultEngine& engine() const { return engine_; }

 private:
  struct Port {
    std::unique_ptr<Wire> wire;
    std::optional<Received> next;                 // received, but not yet handled
    std::deque<std::vector<std::uint8_t>> queue;  // to be sent
    SwitchPortCounters counters;
    std::int64_t ask_again = 0;  // after an error
    std::int64_t send_again = 0;
  };
  struct Delayed {
    std::vector<std::uint8_t> bytes;
    std::uint32_t side;
    std::string faults;
  };

  void run() {
    bool more = false;
    while (!stop_) {
      // poll() does not report frames that a wire has already buffered.
      if (!more) wait();
      const std::lock_guard lock(mutex_);
      const std::int64_t now = wire_clock::now();
      if (engine_.wakes() <= now) leave(engine_.due(now));
      more = round(now);
      while (!delayed_.empty() && delayed_.begin()->first <= wire_clock::now()) {
        const Delayed frame = std::move(delayed_.begin()->second);
        delayed_.erase(delayed_.begin());
        enqueue(frame.bytes, frame.side, frame.faults);
      }
      send_all();
    }
  }

  // Waits until a frame arrives or an event is due.
  void wait() {
    std::vector<pollfd> wanted{{wake_.get(), POLLIN, 0}};
    std::int64_t until = Wire::forever;
    {
      const std::lock_guard lock(mutex_);
      const std::int64_t now = wire_clock::now();
      until = engine_.wakes();
      if (!delayed_.empty()) until = std::min(until, delayed_.begin()->first);
      for (const Port& port : ports_) {
        if (!port.queue.empty()) until = std::min(until, port.send_again);
        if (port.ask_again > now)
          until = std::min(until, port.ask_again);
        else if (port.wire->descriptor() >= 0)
          wanted.push_back({port.wire->descriptor(), POLLIN, 0});
        else
          until = std::min(until, now + again_without_poll);
      }
    }
    const std::int64_t left = std::max<std::int64_t>(0, until - std::min(until, wire_clock::now()));
    const timespec timeout{left / 1'000'000'000, left % 1'000'000'000};
    ppoll(wanted.data(), wanted.size(), until == Wire::forever ? nullptr : &timeout, nullptr);
  }

  // Handles received frames of all ports in time order. Returns true if there may be more.
  bool round(std::int64_t now) {
    std::vector<char> dry(ports_.size(), 0);
    for (std::size_t handled = 0; handled < frames_a_round; ++handled) {
      Port* first = nullptr;
      for (std::size_t i = 0; i < ports_.size(); ++i) {
        Port& port = ports_[i];
        if (!port.next && !dry[i] && port.ask_again <= now) {
          auto received = port.wire->receive(0);
          if (!received) {
            port.counters.trouble = received.error().message;
            port.ask_again = now + again_when_broken;
          } else {
            port.next = *received;
          }
          dry[i] = !port.next;
        }
        if (port.next && (!first || port.next->time < first->next->time)) first = &port;
      }
      if (!first) return false;
      arrived(*first, *std::exchange(first->next, std::nullopt));
    }
    return true;
  }

  void arrived(Port& port, const Received& received) {
    // Network interfaces also return frames sent by this host.
    if (received.own || received.frame.size() < Ethernet::size) return;
    ++port.counters.received;
    const auto side = static_cast<std::uint32_t>(&port - ports_.data());
    if (const std::uint64_t source = source_of(received.frame); !is_group(source)) {
      if (learnt_.size() >= options_.addresses && !learnt_.contains(source)) learnt_.clear();
      learnt_[source] = side;
    }
    const FaultOutcome& outcome = engine_.arrived(received.frame, received.time, side);
    tap(options_.arrived, received.frame, received.wire_bytes, received.time, side, outcome.faults);
    if (outcome.dropped)
      tap(options_.passed, received.frame, received.wire_bytes, wire_clock::now(), side, outcome.faults);
    leave(outcome);
  }

  void leave(const FaultOutcome& outcome) {
    const std::int64_t now = wire_clock::now();
    for (const FaultedFrame& frame : outcome.leaving) {
      if (frame.time <= now) {
        enqueue(frame.bytes, frame.side, frame.faults);
      } else if (delayed_.size() >= options_.delayed_frames) {
        ++delayed_full_;
      } else {
        delayed_.emplace(frame.time,
                         Delayed{{frame.bytes.begin(), frame.bytes.end()}, frame.side, std::string(frame.faults)});
      }
    }
  }

  // Adds the frame to the queues of its output ports.
  void enqueue(Bytes frame, std::uint32_t side, std::string_view faults) {
    const std::uint64_t destination = destination_of(frame);
    const auto known = is_group(destination) ? learnt_.end() : learnt_.find(destination);
    if (known == learnt_.end()) ++ports_[side].counters.flooded;
    tap(options_.passed, frame, static_cast<std::uint32_t>(frame.size()), wire_clock::now(), side, faults);
    for (std::uint32_t i = 0; i < ports_.size(); ++i) {
      if (i == side || (known != learnt_.end() && known->second != i)) continue;
      Port& port = ports_[i];
      if (port.queue.size() >= options_.queue_frames) {
        ++port.counters.queue_full;
        continue;
      }
      if (spare_.empty()) spare_.emplace_back();
      port.queue.push_back(std::move(spare_.back()));
      spare_.pop_back();
      port.queue.back().assign(frame.begin(), frame.end());
      tap(options_.left, frame, static_cast<std::uint32_t>(frame.size()), wire_clock::now(), i, faults);
    }
  }

  void send_all() {
    const std::int64_t now = wire_clock::now();
    for (Port& port : ports_) {
      while (!port.queue.empty()) {
        outgoing_.clear();
        for (const auto& frame : port.queue) {
          if (outgoing_.size() == frames_a_round) break;
          outgoing_.push_back({frame, 0});
        }
        const auto sent = port.wire->send(outgoing_);
        std::size_t gone = sent.value_or(1);
        if (!sent) {
          // The frame is dropped: a switch port does not wait for its neighbor.
          ++port.counters.down;
          port.counters.trouble = sent.error().message;
        } else {
          port.counters.sent += *sent;
        }
        if (gone == 0) {
          port.send_again = now + again_when_blocked;
          break;
        }
        for (; gone > 0; --gone) {
          if (spare_.size() < 1024) spare_.push_back(std::move(port.queue.front()));
          port.queue.pop_front();
        }
      }
    }
  }

  void tap(std::optional<captures::Writer>& writer, Bytes frame, std::uint32_t wire_bytes, std::int64_t time,
           std::uint32_t interface, std::string_view faults) {
    if (!writer) return;
    captures::Record record;
    record.bytes = frame;
    record.time = time;
    record.wire_length = wire_bytes;
    record.interface = interface;
    const auto written = faults.empty() ? writer->write(record) : writer->write(record, std::span(&faults, 1));
    if (!written) tap_failed(writer, written.error());
  }
  void tap_failed(std::optional<captures::Writer>& writer, const captures::CaptureError& error) {
    tap_trouble_ = to_string(error);
    writer.reset();
  }

  SwitchOptions options_;
  mutable std::mutex mutex_;  // protects all following members
  std::vector<Port> ports_;
  FaultEngine engine_;
  std::unordered_map<std::uint64_t, std::uint32_t> learnt_;
  std::multimap<std::int64_t, Delayed> delayed_;  // by time
  std::vector<std::vector<std::uint8_t>> spare_;
  std::vector<Outgoing> outgoing_;
  std::uint64_t delayed_full_ = 0;
  std::string tap_trouble_;

  Descriptor wake_;
  std::atomic<bool> stop_ = false;
  std::mutex stopping_;
  std::thread thread_;
};

Switch::Switch() = default;
Switch::~Switch() = default;

WireResult<std::unique_ptr<Switch>> Switch::start(std::vector<std::unique_ptr<Wire>> wires, SwitchOptions options) {
  const auto wrong = [](std::string message) {
    return tl::unexpected(WireError{WireError::Kind::unsupported, 0, std::move(message)});
  };
  if (wires.size() < 2 || wires.size() > 26)
    return wrong(fmt::format("a switch requires 2 to 26 wires, not {}", wires.size()));
  for (const auto& wire : wires) {
    const WireCapabilities& can = wire->capabilities();
    if (can.link != LinkType::ethernet || !can.sends || !can.receives || can.virtual_time)
      return wrong(fmt::format("{}: a switch requires real-time Ethernet wires that send and receive", wire->name()));
  }
  std::unique_ptr<Switch> made(new Switch());
  made->fabric_ = std::make_unique<Fabric>(std::move(wires), std::move(options));
  return made;
}

void Switch::stop() { fabric_->stop(); }
void Switch::set_faults(FaultProgram faults, const FaultEngineOptions& options) {
  fabric_->set_faults(std::move(faults), options);
}
SwitchCounters Switch::counters() const {
  return fabric_->read([](const Fabric& f) { return f.counters(); });
}
std::vector<FaultCount> Switch::fault_counts() const {
  return fabric_->read([](const Fabric& f) {
    const auto counts = f.engine().counts();
    return std::vector<FaultCount>(counts.begin(), counts.end());
  });
}
std::vector<FaultLogEntry> Switch::fault_log() const {
  return fabric_->read([](const Fabric& f) {
    const auto& log = f.engine().log();
    return std::vector<FaultLogEntry>(log.begin(), log.end());
  });
}
FaultProgram Switch::faults() const {
  return fabric_->read([](const Fabric& f) { return f.engine().program(); });
}
std::uint64_t Switch::seed() const {
  return fabric_->read([](const Fabric& f) { return f.engine().seed(); });
}

}  // namespace rdmawire::replay
