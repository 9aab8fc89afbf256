#pragma once
/// A wire with a rate limit and a destination allow-list, for senders of crafted frames.

#include <vector>

#include "replay/wires/forwarding.hpp"

namespace rdmawire::replay {

struct SendLimits {
  std::uint32_t frames_per_second = 0;  ///< 0: unlimited
  std::uint32_t burst = 64;             ///< frames that may be sent at once after a pause
  /// Permitted destination MAC addresses. Empty: all unicast addresses.
  std::vector<std::uint64_t> destinations = {};
  bool groups = false;  ///< also permit broadcast and multicast
};

/// Frames above the rate are delayed. A frame to another destination is refused (WireError::Kind::forbidden), together
/// with the following frames of the same call.
class LimitedWire final : public ForwardingWire {
 public:
  /// `next` must be an Ethernet wire and outlive the object.
  LimitedWire(Wire& next, SendLimits restraint);

  using Wire::send;
  WireResult<std::size_t> send(std::span<const Outgoing> frames) override;

 private:
  [[nodiscard]] bool may_go(Bytes frame) const;

  SendLimits restraint_;
  std::int64_t interval_ = 0;  ///< nanoseconds per frame. 0: unlimited
  std::int64_t due_ = 0;       ///< transmission time of the next frame if all were evenly spaced
};

}  // namespace rdmawire::replay
