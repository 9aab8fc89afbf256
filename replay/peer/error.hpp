#pragma once
/// Errors of an agent session.

#include <cstdint>
#include <string>
#include <tl/expected.hpp>

namespace rdmawire::peer {

struct PeerError {
  enum class Kind : std::uint8_t {
    refused,  ///< error response of the agent or of the device under test
    timeout,  ///< no response in time. The agent may still execute the command
    lost,     ///< the connection is over. Later commands fail as well
    usage,    ///< invalid address, argument or handle of the caller. No command was sent
  };
  Kind kind = Kind::refused;
  int number = 0;       ///< errno of Linux. For `refused`, the agent's errno
  std::string name;     ///< symbolic name: "ENOENT"
  std::string message;  ///< operation, object and cause
};

template <class T>
using PeerResult = tl::expected<T, PeerError>;

/// Creates a local error. `name` is derived from the number.
PeerError peer_error(PeerError::Kind kind, int number, std::string message);
/// "alloc_pd: device: no object 7 (ENOENT)"
std::string to_string(const PeerError& error);

}  // namespace rdmawire::peer
