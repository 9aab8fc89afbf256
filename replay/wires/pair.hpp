#pragma once
/// The two ends of a wire in this process, in real time.

#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include "replay/wires/wire.hpp"

namespace rdmawire::replay {

struct WirePairOptions {
  std::string name = "pair";         ///< the ends are named "pair:a" and "pair:b"
  std::size_t frames = 1024;         ///< queue limit of each direction
  std::uint32_t max_bytes = 65'536;  ///< maximum frame length
};

/// Two ends, a and b: a frame sent at one end arrives at the other at its time. Each end may be used by one thread at a
/// time. The two ends may be used by different threads. A full queue accepts no frames. After one end is closed, the
/// other receives the queued frames and then WireError::Kind::down.
std::pair<std::unique_ptr<Wire>, std::unique_ptr<Wire>> make_wire_pair(const WirePairOptions& options = {});

}  // namespace rdmawire::replay
