#pragma once
/// Internal: several raw-packet QPs of one port as one wire.

#include <memory>
#include <vector>

#include "replay/wires/out_of_order.hpp"
#include "replay/wires/wire.hpp"

namespace rdmawire::replay {

/// A wire that knows how many frames it accepts at once.
class SendRoom {
 public:
  virtual ~SendRoom() = default;
  [[nodiscard]] virtual std::size_t send_room() = 0;
};

/// Distributes frames to the wires by the pair of their hosts. The first wire receives. `threads`: one thread per wire
/// copies and posts the frames. After a wire failed, send() and flush() return its error. Frames that the other wires
/// accepted are still sent and counted.
std::unique_ptr<Wire> make_queues(std::vector<std::unique_ptr<Wire>> wires, bool threads, std::string name);

/// Hash of the two hosts of a frame: its IP addresses, otherwise its MAC addresses. Equal in both directions, so that
/// all frames of a connection have the same hash.
std::uint64_t hosts_hash(Bytes frame);

}  // namespace rdmawire::replay
