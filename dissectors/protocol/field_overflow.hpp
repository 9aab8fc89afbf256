#pragma once
/// Computed lengths that exceed their fields.

#include <cstdint>
#include <string>
#include <tl/expected.hpp>
#include <vector>

#include "dissectors/protocol/encode.hpp"

namespace rdmawire {

/// A computed value with more bits than its field.
struct FieldOverflow {
  const HeaderInfo* header = nullptr;
  const Field* field = nullptr;
  std::uint64_t value = 0;
};
/// Returns "udp.length is 16 bits wide: 70024, as computed, does not fit. Set it explicitly or reduce the frame".
std::string to_string(const FieldOverflow& misfit);

/// Encodes like Frame::encode(), but returns an error if a computed value exceeds its field. The error describes the
/// first such field of the outermost header. Values that the caller set are not checked.
tl::expected<std::vector<std::uint8_t>, FieldOverflow> encode_strictly(const Frame& frame);

/// For HeaderValue::fill(): reports the overflow to the encode_strictly() call of this thread, if there is one.
void note_misfit(const FieldOverflow& misfit);

}  // namespace rdmawire
