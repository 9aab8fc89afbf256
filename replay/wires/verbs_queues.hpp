#pragma once
/// Internal: several raw-packet QPs of one port as one wire.

#include <memory>
#include <vector>

#include "replay/wires/wire.hpp"

namespace rdmawire::replay {

/// A wire whose frames may leave out of order. Frames of one flow stay in order.
class OutOfOrder {
 public:
  virtual ~OutOfOrder() = default;
};

/// Distributes frames to the wires by their flow: IP addresses, UDP or TCP ports and destination QP, otherwise MAC
/// addresses. The first wire receives. `threads`: one thread per wire copies and posts the frames.
std::unique_ptr<Wire> make_queues(std::vector<std::unique_ptr<Wire>> wires, bool threads, std::string name);

/// The flow of a frame, as a hash.
std::uint64_t flow_hash(Bytes frame);

}  // namespace rdmawire::replay
