#include "replay/wires/pair.hpp"

#include <poll.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <vector>

#include "replay/wires/clock.hpp"
#include "replay/wires/descriptor.hpp"
#include "replay/wires/error.hpp"

namespace rdmawire::replay {
namespace {

struct Waiting {
  std::vector<std::uint8_t> frame;
  std::int64_t time = 0;
};

// Descriptor for poll() of one direction: readable when the first frame is due. An event descriptor complements the
// timer, because setting a timer costs more than sending a frame in virtual machines.
class Doorbell {
 public:
  Doorbell() {
    for (const Descriptor* one : {&event_, &timer_}) {
      epoll_event interest{};
      interest.events = EPOLLIN;
      epoll_ctl(both_.get(), EPOLL_CTL_ADD, one->get(), &interest);
    }
  }
  [[nodiscard]] int descriptor() const { return both_.get(); }
  /// Becomes readable at `time`. 0: immediately. forever: never.
  void set(std::int64_t time) {
    if (time == set_) return;
    const bool at_once = time == 0;
    if (rings_ != at_once) {
      std::uint64_t count = 1;
      const auto done = at_once ? write(event_.get(), &count, sizeof count) : read(event_.get(), &count, sizeof count);
      rings_ = done == static_cast<ssize_t>(sizeof count) ? at_once : rings_;
    }
    const bool later = !at_once && time != Wire::forever;
    if (later || armed_) {
      itimerspec when{};
      if (later) when.it_value = wire_clock::monotonic(time);
      timerfd_settime(timer_.get(), TFD_TIMER_ABSTIME, &when, nullptr);
      armed_ = later;
    }
    set_ = time;
  }

 private:
  Descriptor event_{eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)};
  Descriptor timer_{timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK)};
  Descriptor both_{epoll_create1(EPOLL_CLOEXEC)};
  std::int64_t set_ = Wire::forever;
  bool rings_ = false, armed_ = false;
};

struct Direction {
  std::mutex mutex;
  std::condition_variable taken;
  std::deque<Waiting> queue;
  bool sender_closed = false, receiver_closed = false;
  Doorbell bell;

  // Call with the mutex locked, after the first frame changed.
  void ring(std::int64_t now) {
    if (queue.empty())
      bell.set(sender_closed ? 0 : Wire::forever);
    else
      bell.set(queue.front().time <= now ? 0 : queue.front().time);
  }
};

class PairEnd final : public Wire {
 public:
  PairEnd(std::string name, const WirePairOptions& options, std::shared_ptr<Direction> out,
          std::shared_ptr<Direction> in)
      : name_(std::move(name)),
        most_frames_(std::max<std::size_t>(1, options.frames)),
        out_(std::move(out)),
        in_(std::move(in)) {
    capabilities_.max_bytes = options.max_bytes;
    capabilities_.min_bytes = 14;
    capabilities_.batch = 64;
    capabilities_.paces = true;
  }
  ~PairEnd() override { close(); }

  [[nodiscard]] const std::string& name() const override { return name_; }
  [[nodiscard]] const WireCapabilities& capabilities() const override { return capabilities_; }
  [[nodiscard]] int descriptor() const override { return closed_ ? -1 : in_->bell.descriptor(); }
  [[nodiscard]] WireCounters counters() const override { return counters_; }

  using Wire::send;
  WireResult<std::size_t> send(std::span<const Outgoing> frames) override {
    if (closed_) return tl::unexpected(closed_error(name_));
    const std::lock_guard lock(out_->mutex);
    if (out_->receiver_closed)
      return tl::unexpected(wire_error(WireError::Kind::down, 0, "{}: send: the peer closed the wire", name_));
    const std::int64_t now = wire_clock::now();
    std::size_t sent = 0;
    for (const Outgoing& outgoing : frames) {
      if (out_->queue.size() >= most_frames_) break;
      if (outgoing.frame.size() < capabilities_.min_bytes || outgoing.frame.size() > capabilities_.max_bytes) {
        if (sent > 0) break;
        return tl::unexpected(wire_error(WireError::Kind::frame, 0,
                                         "{}: frame of {} bytes; the valid range is {} to {}", name_,
                                         outgoing.frame.size(), capabilities_.min_bytes, capabilities_.max_bytes));
      }
      // A frame waits for the frames before it.
      last_ = std::max({outgoing.time, now, last_});
      out_->queue.push_back({{outgoing.frame.begin(), outgoing.frame.end()}, last_});
      if (out_->queue.size() == 1) out_->ring(now);
      counters_.sent_bytes += outgoing.frame.size();
      ++sent;
    }
    counters_.sent += sent;
    return sent;
  }

  WireResult<bool> writable(std::int64_t deadline) override {
    if (closed_) return tl::unexpected(closed_error(name_));
    std::unique_lock lock(out_->mutex);
    const auto free = [&] { return out_->queue.size() < most_frames_ || out_->receiver_closed; };
    while (!free()) {
      const std::int64_t left = deadline - std::min(deadline, now());
      if (left == 0) return false;
      out_->taken.wait_for(lock, std::chrono::nanoseconds(std::min<std::int64_t>(left, 3'600'000'000'000)));
    }
    return true;
  }

  WireResult<std::optional<Received>> receive(std::int64_t deadline) override {
    for (;;) {
      if (closed_) return tl::unexpected(closed_error(name_));
      {
        const std::lock_guard lock(in_->mutex);
        const std::int64_t now = wire_clock::now();
        if (!in_->queue.empty() && in_->queue.front().time <= now) {
          current_ = std::move(in_->queue.front());
          in_->queue.pop_front();
          in_->ring(now);
          in_->taken.notify_one();
          ++counters_.received;
          counters_.received_bytes += current_.frame.size();
          return Received{current_.frame, current_.time, static_cast<std::uint32_t>(current_.frame.size()), false};
        }
        if (in_->queue.empty() && in_->sender_closed)
          return tl::unexpected(wire_error(WireError::Kind::down, 0, "{}: receive: the peer closed the wire", name_));
      }
      if (!wire_clock::wait_for(in_->bell.descriptor(), POLLIN, deadline)) return std::nullopt;
    }
  }

  void close() override {
    if (closed_) return;
    closed_ = true;
    {
      const std::lock_guard lock(out_->mutex);
      out_->sender_closed = true;
      if (out_->queue.empty()) out_->ring(wire_clock::now());
    }
    const std::lock_guard lock(in_->mutex);
    in_->receiver_closed = true;
    in_->queue.clear();
    in_->taken.notify_one();
  }

 private:
  std::string name_;
  WireCapabilities capabilities_;
  WireCounters counters_;
  std::size_t most_frames_;
  std::shared_ptr<Direction> out_, in_;
  std::int64_t last_ = 0;
  Waiting current_;
  bool closed_ = false;
};

}  // namespace

std::pair<std::unique_ptr<Wire>, std::unique_ptr<Wire>> make_wire_pair(const WirePairOptions& options) {
  auto there = std::make_shared<Direction>(), back = std::make_shared<Direction>();
  return {std::make_unique<PairEnd>(options.name + ":a", options, there, back),
          std::make_unique<PairEnd>(options.name + ":b", options, back, there)};
}

}  // namespace rdmawire::replay
