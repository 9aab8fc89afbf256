#pragma once
/// The proof that we know the secret that an agent was started with: docs/agent.md.

#include <string>
#include <string_view>

#include "replay/peer/error.hpp"

namespace rdmawire::peer {

/// The secret in a file: its bytes without white space at the end, so that `echo` and an editor make the same one.
/// An empty one is an error.
PeerResult<std::string> read_secret(const std::string& path);

/// HMAC-SHA256 (RFC 2104, FIPS 180-4) of a challenge's bytes, as hexadecimal text.
std::string prove(std::string_view secret, std::string_view challenge);

}  // namespace rdmawire::peer
