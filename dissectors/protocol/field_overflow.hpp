#pragma once
/// Lengths that are computed, and that their fields cannot hold.

#include <cstdint>
#include <string>
#include <tl/expected.hpp>
#include <vector>

#include "dissectors/protocol/encode.hpp"

namespace rdmawire {

/// A value that encoding computed, and that has more bits than its field.
struct FieldOverflow {
  const HeaderInfo* header = nullptr;
  const Field* field = nullptr;
  std::uint64_t value = 0;
};
/// "udp.length is 16 bits wide: 70024, as computed, does not fit; give it, or make the frame smaller"
std::string to_string(const FieldOverflow& misfit);

/// What Frame::encode() gives; where that keeps the low bits of a computed value, an error: the first such field of the
/// outermost header that has one. Values that are given are kept as always.
tl::expected<std::vector<std::uint8_t>, FieldOverflow> encode_strictly(const Frame& frame);

/// Of HeaderValue::fill(): notes the misfit for an encode_strictly() on this thread, if there is one.
void note_misfit(const FieldOverflow& misfit);

}  // namespace rdmawire
