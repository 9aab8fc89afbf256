// Fuzz target: a length (two bytes) and an Ethernet frame. Shortened frames and fragments keep the limit.

#include <cstdlib>
#include <vector>

#include "replay/player/frame_lengths.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace rdmawire;
  if (size < 2) return 0;
  const std::size_t most = load_be<2>(data);
  const Bytes frame(data + 2, size - 2);
  std::vector<std::uint8_t> shortened(frame.begin(), frame.end());
  if (const auto length = replay::shorten_frame(shortened, LinkType::ethernet, most))
    if (*length > most || *length > frame.size()) std::abort();
  std::size_t fragments = 0;
  for (const auto& fragment : replay::fragment_frame(frame, LinkType::ethernet, most, 1)) {
    if (fragment.size() > most) std::abort();
    ++fragments;
  }
  // Each fragment except the last one contains at least 8 bytes of the payload.
  if (fragments > frame.size() / 8 + 1) std::abort();
  return 0;
}
