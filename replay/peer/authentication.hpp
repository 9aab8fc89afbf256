#pragma once
/// Proof of knowledge of the agent's secret: docs/reference/agent-protocol.md.

#include <string>
#include <string_view>

#include "replay/peer/error.hpp"

namespace rdmawire::peer {

/// Reads the secret from a file, without trailing white space. An empty secret is an error.
PeerResult<std::string> read_secret(const std::string& path);

/// HMAC-SHA256 (RFC 2104, FIPS 180-4) of the challenge's bytes, as hexadecimal text.
std::string prove(std::string_view secret, std::string_view challenge);

}  // namespace rdmawire::peer
