#pragma once
/// Events of a connection for the application.

#include <cstdint>
#include <vector>

#include "dissectors/machines/iwarp_error.hpp"

namespace rdmawire::endpoint {

/// An event for the application.
struct ConnectionEvent {
  enum class Type : std::uint8_t {
    request,       ///< a peer requests a connection. The members contain values of its MPA Request Frame
    established,   ///< the members contain values of the responder's MPA Reply Frame
    rejected,      ///< the members contain values of the responder's MPA Reply Frame
    failed,        ///< the connection ended before it was established
    peer_closed,   ///< the peer sends no more data
    error,         ///< this endpoint detected `error`, and sends a Terminate if possible
    terminated,    ///< the peer sent a Terminate with `error`
    disconnected,  ///< the connection has ended. Always the last event
  };
  Type type = Type::request;
  std::vector<std::uint8_t> private_data{};
  std::uint16_t ird = 0, ord = 0;  ///< values of an enhanced frame
  std::uint8_t revision = 0;
  machines::IwarpError error{};

  friend bool operator==(const ConnectionEvent&, const ConnectionEvent&) = default;
};

}  // namespace rdmawire::endpoint
