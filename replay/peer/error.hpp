#pragma once
/// What can go wrong between us and an agent.

#include <cstdint>
#include <string>
#include <tl/expected.hpp>

namespace rdmawire::peer {

struct PeerError {
  enum class Kind : std::uint8_t {
    refused,  ///< the agent's answer: it, or the device under test, would not
    timeout,  ///< no answer came in time; the agent may still be at it
    lost,     ///< the connection is over; nothing that is asked later will be answered
    usage,    ///< our own caller: an address, an argument, a handle that was moved away; nothing was sent
  };
  Kind kind = Kind::refused;
  int number = 0;       ///< Linux's errno; the agent's when refused
  std::string name;     ///< its symbol: "ENOENT"
  std::string message;  ///< what was being done, to what, what was found
};

template <class T>
using PeerResult = tl::expected<T, PeerError>;

/// An error of this side; `name` follows from the number.
PeerError peer_error(PeerError::Kind kind, int number, std::string message);
/// "alloc_pd: device: there is no object 7 (ENOENT)"
std::string to_string(const PeerError& error);

}  // namespace rdmawire::peer
