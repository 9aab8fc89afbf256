// Fuzz target: frames, each preceded by its length (one byte). The host sends at most one reply per frame, from its own
// MAC, and stays within its limits.

#include <algorithm>
#include <cstdlib>

#include "replay/host/host.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace rdmawire::replay;
  Host host(
      {.mac = 0x020000000001, .addresses = {IpAddress::v4(0x0a000001), *IpAddress::parse("fd00::1")}, .neighbors = 4});
  std::int64_t now = 0;
  for (std::size_t at = 0; at < size;) {
    const std::size_t bytes = std::min<std::size_t>(data[at], size - at - 1);
    SimulatedHostOutput output;
    (void)host.takes({data + at + 1, bytes}, ++now, output);
    if (output.frames.size() > 1) std::abort();
    for (const auto& frame : output.frames)
      if (frame.bytes.size() < 42 || rdmawire::load_be(frame.bytes.data() + 6, 6) != 0x020000000001) std::abort();
    at += 1 + bytes;
  }
  return 0;
}
