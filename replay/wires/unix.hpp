#pragma once
/// Datagrams over Unix sockets: the wire to a virtual machine (qemu's -netdev dgram).

#include <optional>
#include <string>

#include "replay/wires/spec.hpp"
#include "replay/wires/wire.hpp"

namespace rdmawire::replay {

struct UnixWireOptions {
  std::string path;                  ///< socket of the peer
  std::string local = {};            ///< local socket. Empty: path + ".peer"
  unsigned mode = 0600;              ///< of the local socket file
  std::uint32_t max_bytes = 65'536;  ///< maximum frame length. Longer received frames are truncated
  std::string name = {};             ///< name of the wire. Empty: "unix:" + path
};

/// Listens at `local`. A stale socket file is replaced. A socket in use is an error. The peer may start later: send()
/// returns WireError::Kind::down until then, and reconnects after a restart of the peer. close() removes the socket
/// file.
WireResult<std::unique_ptr<Wire>> open_unix_wire(const UnixWireOptions& options);
WireResult<std::unique_ptr<Wire>> open_unix_wire(const WireSpec& spec);

}  // namespace rdmawire::replay
