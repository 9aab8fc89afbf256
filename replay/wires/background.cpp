#include "replay/wires/background.hpp"

#include <poll.h>
#include <sys/eventfd.h>

#include <atomic>
#include <deque>
#include <mutex>
#include <thread>
#include <vector>

#include "replay/wires/clock.hpp"
#include "replay/wires/descriptor.hpp"
#include "replay/wires/error.hpp"
#include "replay/wires/forwarding.hpp"

namespace rdmawire::replay {
namespace {

constexpr std::int64_t look_up = 50'000'000;  // maximum interval between checks of the stop flag

class BackgroundWire final : public ForwardingWire {
 public:
  BackgroundWire(std::unique_ptr<Wire> wire, const BackgroundOptions& options)
      : ForwardingWire(*wire),
        wire_(std::move(wire)),
        options_(options),
        ready_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
    thread_ = std::thread([this] { read(); });
  }
  ~BackgroundWire() override { close(); }

  [[nodiscard]] int descriptor() const override { return ready_.get(); }
  using Wire::send;
  WireResult<std::size_t> send(std::span<const Outgoing> frames) override;
  WireResult<std::optional<Received>> receive(std::int64_t deadline) override;
  [[nodiscard]] WireCounters counters() const override;
  void close() override;

 private:
  struct Kept {
    std::vector<std::uint8_t> bytes;
    Received received;
  };
  void read();

  std::unique_ptr<Wire> wire_;
  BackgroundOptions options_;
  Descriptor ready_;  // readable while frames are queued
  std::thread thread_;
  std::atomic<bool> ends_ = false;
  mutable std::mutex mutex_;  // protects the following members
  std::deque<Kept> waiting_;
  std::size_t waiting_bytes_ = 0;
  std::optional<WireError> failed_;
  // Counted here, because both threads update the counters of the inner wire.
  WireCounters counters_;
  bool closed_ = false;
  Kept current_;
};

WireResult<std::size_t> BackgroundWire::send(std::span<const Outgoing> frames) {
  const auto sent = wire_->send(frames);
  if (!sent) return sent;
  const std::scoped_lock lock(mutex_);
  counters_.sent += *sent;
  for (const Outgoing& frame : frames.first(*sent)) counters_.sent_bytes += frame.frame.size();
  return sent;
}

void BackgroundWire::read() {
  while (!ends_) {
    const auto received = wire_->receive(wire_->now() + look_up);
    if (received && !*received) continue;
    const std::scoped_lock lock(mutex_);
    if (!received) {
      failed_ = received.error();
    } else if (waiting_bytes_ + (*received)->frame.size() > options_.max_bytes) {
      ++counters_.dropped;
      continue;
    } else {
      const Bytes frame = (*received)->frame;
      waiting_bytes_ += frame.size();
      waiting_.push_back({{frame.begin(), frame.end()}, **received});
    }
    eventfd_write(ready_.get(), 1);
    if (failed_) return;
  }
}

WireResult<std::optional<Received>> BackgroundWire::receive(std::int64_t deadline) {
  if (closed_) return tl::unexpected(closed_error(name()));
  do {
    const std::scoped_lock lock(mutex_);
    if (!waiting_.empty()) {
      current_ = std::move(waiting_.front());
      waiting_.pop_front();
      waiting_bytes_ -= current_.bytes.size();
      current_.received.frame = current_.bytes;
      ++counters_.received;
      counters_.received_bytes += current_.received.wire_bytes;
      return current_.received;
    }
    if (failed_) return tl::unexpected(*failed_);
    eventfd_t count = 0;
    eventfd_read(ready_.get(), &count);
  } while (wire_clock::wait_for(ready_.get(), POLLIN, deadline));
  return std::nullopt;
}

WireCounters BackgroundWire::counters() const {
  const std::scoped_lock lock(mutex_);
  return counters_;
}

void BackgroundWire::close() {
  if (closed_) return;
  ends_ = true;
  thread_.join();
  counters_.dropped += wire_->counters().dropped;
  wire_->close();
  closed_ = true;
}

}  // namespace

std::unique_ptr<Wire> read_in_background(std::unique_ptr<Wire> wire, const BackgroundOptions& options) {
  return std::make_unique<BackgroundWire>(std::move(wire), options);
}

}  // namespace rdmawire::replay
