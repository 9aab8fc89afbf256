#pragma once
/// Inside the room: the XDP program that gives a queue's frames to a socket.

#include <string_view>

#include "replay/wires/descriptor.hpp"
#include "replay/wires/interface.hpp"

namespace rdmawire::replay {

/// While it lives, what arrives on that queue of the interface comes to the AF_XDP socket; other queues stay the
/// kernel's.
class XdpProgram {
 public:
  XdpProgram() = default;
  static WireResult<XdpProgram> attach(const Interface& interface, std::uint32_t queue, int socket);
  /// "native" in the driver, "generic" in the kernel's stack.
  [[nodiscard]] std::string_view how() const { return how_; }

 private:
  Descriptor map_, program_, link_;
  std::string_view how_;
};

}  // namespace rdmawire::replay
