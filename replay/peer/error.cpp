#include "replay/peer/error.hpp"

#include <fmt/format.h>

#include <cstring>

namespace rdmawire::peer {

PeerError peer_error(PeerError::Kind kind, int number, std::string message) {
  const char* name = number == 0 ? nullptr : strerrorname_np(number);
  return {kind, number, name == nullptr ? "" : name, std::move(message)};
}

std::string to_string(const PeerError& error) {
  return error.name.empty() ? error.message : fmt::format("{} ({})", error.message, error.name);
}

}  // namespace rdmawire::peer
