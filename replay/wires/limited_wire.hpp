#pragma once
/// A wire that sends no faster than it was told, and to nobody but those it was told: for whatever sends crafted frames
/// toward real devices.

#include <vector>

#include "replay/wires/forwarding.hpp"

namespace rdmawire::replay {

struct SendLimits {
  std::uint32_t frames_per_second = 0;  ///< 0: as fast as the wire takes them
  std::uint32_t burst = 64;             ///< by how many frames it may be ahead of that after a pause
  /// Ethernet addresses that frames may go to; empty: any but those of groups.
  std::vector<std::uint64_t> destinations = {};
  bool groups = false;  ///< broadcast and multicast, too
};

/// Frames beyond the rate are not lost: they leave when it is their turn. A frame to somebody else is refused
/// (WireError::Kind::forbidden), and so are those behind it in the same call.
class LimitedWire final : public ForwardingWire {
 public:
  /// `next`, an Ethernet wire, must outlive this.
  LimitedWire(Wire& next, SendLimits restraint);

  using Wire::send;
  WireResult<std::size_t> send(std::span<const Outgoing> frames) override;

 private:
  [[nodiscard]] bool may_go(Bytes frame) const;

  SendLimits restraint_;
  std::int64_t interval_ = 0;  ///< nanoseconds a frame; 0: no cap
  std::int64_t due_ = 0;       ///< when the next frame would leave if all were evenly spaced
};

}  // namespace rdmawire::replay
