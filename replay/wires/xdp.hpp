#pragma once
/// One queue of a network interface through AF_XDP: frames bypass the kernel's stack and use shared memory.

#include <string>

#include "replay/wires/spec.hpp"
#include "replay/wires/wire.hpp"

namespace rdmawire::replay {

struct XdpWireOptions {
  /// How frames reach the device.
  enum class Mode : std::uint8_t {
    best,       ///< zero copy if the driver supports it, otherwise copy mode
    zero_copy,  ///< zero copy, otherwise an error
    copy,
  };
  std::string interface;
  std::uint32_t queue = 0;
  Mode mode = Mode::best;
  std::uint32_t batch = 64;  ///< frames per send() call
  /// Maximum number of frames being sent, and of received frames not read yet. Rounded up to a power of two.
  std::uint32_t frames = 2048;
  bool receive = true;    ///< receive all frames of the queue, instead of the kernel
  std::string name = {};  ///< name of the wire. Empty: "xdp:" + interface
};

/// Receiving attaches an XDP program to the interface. The kernel detaches it when the wire is closed or the process
/// exits. counters() counts completed frames. Frames of more than 4096 bytes require Linux 6.6.
WireResult<std::unique_ptr<Wire>> open_xdp_wire(const XdpWireOptions& options);
/// Parses xdp:INTERFACE. Does not check whether the interface exists.
WireResult<XdpWireOptions> xdp_options(const WireSpec& spec);
WireResult<std::unique_ptr<Wire>> open_xdp_wire(const WireSpec& spec);

}  // namespace rdmawire::replay
