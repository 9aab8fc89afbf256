#pragma once
/// Internal: the XDP program that redirects the frames of a queue to a socket.

#include <string_view>

#include "replay/wires/descriptor.hpp"
#include "replay/wires/interface.hpp"

namespace rdmawire::replay {

/// During its lifetime, frames that arrive on the queue are redirected to the AF_XDP socket. Other queues are
/// unchanged.
class XdpProgram {
 public:
  XdpProgram() = default;
  static WireResult<XdpProgram> attach(const Interface& interface, std::uint32_t queue, int socket);
  /// "native": in the driver. "generic": in the kernel's stack.
  [[nodiscard]] std::string_view how() const { return how_; }

 private:
  Descriptor map_, program_, link_;
  std::string_view how_;
};

}  // namespace rdmawire::replay
