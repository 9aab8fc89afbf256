#pragma once
/// Internal: errors of wires.

#include <fmt/format.h>

#include <cstring>
#include <string_view>

#include "replay/wires/clock.hpp"
#include "replay/wires/wire.hpp"

namespace rdmawire::replay {

/// "unix:/x: binding /x.peer: Permission denied; …"
template <class... Arguments>
WireError wire_error(WireError::Kind kind, int number, fmt::format_string<Arguments...> text,
                     Arguments&&... arguments) {
  return {kind, number, fmt::format(text, std::forward<Arguments>(arguments)...)};
}
inline std::string errno_text(int number) {
  char buffer[128];
  return strerror_r(number, buffer, sizeof buffer);  // the GNU version, which returns the text
}
/// Appended to messages for EPERM and EACCES.
inline constexpr std::string_view needs_net_raw =
    "; requires CAP_NET_RAW: run as root, or use setcap cap_net_raw+ep PROGRAM";

inline WireError closed_error(const std::string& name) {
  return {WireError::Kind::closed, 0, name + ": the wire is closed"};
}

/// Result of receive() on a send-only wire.
inline WireResult<std::optional<Received>> receive_nothing(const std::string& name, std::int64_t deadline) {
  if (deadline == Wire::forever)
    return tl::unexpected(WireError{WireError::Kind::unsupported, 0, name + ": receive: the wire is send-only"});
  wire_clock::sleep_until(deadline);
  return std::nullopt;
}

}  // namespace rdmawire::replay
