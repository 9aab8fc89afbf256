#pragma once
/// Opens a bidirectional byte stream to an agent.

#include <chrono>
#include <string>

#include "replay/peer/error.hpp"
#include "replay/wires/descriptor.hpp"

namespace rdmawire::peer {

using replay::Descriptor;

/// Opens "tcp:HOST:PORT" (IPv6 addresses in brackets), "unix:PATH" or "serial:PATH" in non-blocking mode. A terminal is
/// set to raw mode, and keeps its speed. Fails after `timeout`. `only_this_host`: TCP addresses must be loopback
/// addresses.
PeerResult<Descriptor> open_channel(const std::string& address, std::chrono::milliseconds timeout,
                                    bool only_this_host = false);

}  // namespace rdmawire::peer
