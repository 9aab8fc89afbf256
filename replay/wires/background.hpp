#pragma once
/// A wire that is read all the time.

#include <cstddef>
#include <memory>

#include "replay/wires/wire.hpp"

namespace rdmawire::replay {

struct BackgroundOptions {
  std::size_t max_bytes =
      256U << 20;  ///< of frames that wait for receive(); what arrives beyond is dropped, and counted
};

/// The same wire, read by a thread of its own, so that the other end is never held up while we do something else: qemu
/// keeps a guest's frames, and with them what the guest's kernel holds for them, until we take them (ten datagrams wait
/// by default). Frames keep the times at which they arrived.
///
/// `wire` lives in real time and lets one thread send while another receives, as all do but file:. What was sent is
/// counted when it was handed over; what the wire dropped itself, when it is closed.
std::unique_ptr<Wire> read_in_background(std::unique_ptr<Wire> wire, const BackgroundOptions& options = {});

}  // namespace rdmawire::replay
