#pragma once
/// Events of a connection for the application.

#include <cstdint>
#include <vector>

#include "dissectors/machines/iwarp_error.hpp"

namespace rdmawire::endpoint {

/// Event for the application.
struct ConnectionEvent {
  enum class Type : std::uint8_t {
    request,       ///< accept or reject it. The fields are the initiator's
    established,   ///< the fields are the responder's
    rejected,      ///< the fields are the responder's
    failed,        ///< before the connection was established
    peer_closed,   ///< the peer sends no more data
    error,         ///< detected locally, described by `error`. Sent to the peer in a Terminate if possible
    terminated,    ///< the peer sent a Terminate with `error`
    disconnected,  ///< the last event
  };
  Type type = Type::request;
  std::vector<std::uint8_t> private_data{};
  std::uint16_t ird = 0, ord = 0;  ///< from an enhanced frame
  std::uint8_t revision = 0;
  machines::IwarpError error{};

  friend bool operator==(const ConnectionEvent&, const ConnectionEvent&) = default;
};

}  // namespace rdmawire::endpoint
