#pragma once
/// One queue of a network interface, through AF_XDP: frames go past the kernel's stack, from and to memory that is
/// shared with it.

#include <string>

#include "replay/wires/spec.hpp"
#include "replay/wires/wire.hpp"

namespace rdmawire::replay {

struct XdpWireOptions {
  /// How frames come to the device.
  enum class Mode : std::uint8_t {
    best,       ///< zero copy where driver and device have it, copies otherwise
    zero_copy,  ///< or an error
    copy,
  };
  std::string interface;
  std::uint32_t queue = 0;
  Mode mode = Mode::best;
  std::uint32_t batch = 64;     ///< frames that are handed over by one call
  std::uint32_t frames = 2048;  ///< that may be on their way, and wait here, each; a power of two
  bool receive = true;          ///< every frame that arrives on the queue comes here, and none of them to the kernel
  std::string name = {};        ///< of the wire; empty: "xdp:" + interface
};

/// Receiving attaches an XDP program to the interface, which goes with the wire, however the process ends. counters()
/// count what the kernel gave back as done. Frames of more than 4096 bytes need Linux 6.6.
WireResult<std::unique_ptr<Wire>> open_xdp_wire(const XdpWireOptions& options);
/// xdp:INTERFACE. What the text asks for; whether there is such an interface shows when it is opened.
WireResult<XdpWireOptions> xdp_options(const WireSpec& spec);
WireResult<std::unique_ptr<Wire>> open_xdp_wire(const WireSpec& spec);

}  // namespace rdmawire::replay
