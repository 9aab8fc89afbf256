#pragma once
/// A wire that another thread can interrupt, so that a blocked case returns.

#include <algorithm>
#include <atomic>

#include "replay/wires/forwarding.hpp"

namespace rdmawire::conformance {

class InterruptibleWire final : public replay::ForwardingWire {
 public:
  using ForwardingWire::ForwardingWire;

  /// Makes every later call return WireError::Kind::closed, and wakes up a waiting call.
  void interrupt() { interrupted_ = true; }

  using Wire::send;
  replay::WireResult<std::size_t> send(std::span<const replay::Outgoing> frames) override {
    if (interrupted_) return tl::unexpected(ended());
    return next().send(frames);
  }
  replay::WireResult<std::optional<replay::Received>> receive(std::int64_t deadline) override {
    constexpr std::int64_t slice = 100'000'000;
    for (;;) {
      if (interrupted_) return tl::unexpected(ended());
      // Virtual time advances without waiting.
      const std::int64_t until = capabilities().virtual_time ? deadline : std::min(deadline, next().now() + slice);
      auto received = next().receive(until);
      if (!received || *received || until == deadline) return received;
    }
  }

 private:
  [[nodiscard]] replay::WireError ended() const {
    return {replay::WireError::Kind::closed, 0, name() + ": the case was interrupted"};
  }
  std::atomic<bool> interrupted_ = false;
};

}  // namespace rdmawire::conformance
