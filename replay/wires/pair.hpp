#pragma once
/// Two ends of a wire in this process, in real time.

#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include "replay/wires/wire.hpp"

namespace rdmawire::replay {

struct WirePairOptions {
  std::string name = "pair";         ///< the ends are called "pair:a" and "pair:b"
  std::size_t frames = 1024;         ///< that wait in each direction at most
  std::uint32_t max_bytes = 65'536;  ///< of a frame
};

/// Two ends, a and b: what is sent at one arrives at the other at its time. Each end is used by one thread at a time,
/// the two by different ones. A queue that holds `frames` frames takes no more. After one end was closed, the other
/// still gets what was sent, and then WireError::Kind::down.
std::pair<std::unique_ptr<Wire>, std::unique_ptr<Wire>> make_wire_pair(const WirePairOptions& options = {});

}  // namespace rdmawire::replay
