#pragma once
/// Datagrams over unix sockets: the wire of a virtual machine (qemu's -netdev dgram).

#include <optional>
#include <string>

#include "replay/wires/spec.hpp"
#include "replay/wires/wire.hpp"

namespace rdmawire::replay {

struct UnixWireOptions {
  std::string path;                  ///< where the other end listens
  std::string local = {};            ///< where we listen; empty: path + ".peer"
  unsigned mode = 0600;              ///< of our socket file
  std::uint32_t max_bytes = 65'536;  ///< of a frame; a longer one that arrives is cut
  std::string name = {};             ///< of the wire; empty: "unix:" + path
};

/// Listens at `local`. A socket file that nobody listens at any more is replaced; one in use is an error. The other end
/// need not be there yet: sending says WireError::Kind::down until it is, and finds it again when it was restarted.
/// close() removes the socket file.
WireResult<std::unique_ptr<Wire>> open_unix_wire(const UnixWireOptions& options);
WireResult<std::unique_ptr<Wire>> open_unix_wire(const WireSpec& spec);

}  // namespace rdmawire::replay
