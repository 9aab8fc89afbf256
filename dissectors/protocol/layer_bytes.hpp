#pragma once
/// Length of a header in the encoded packet.

#include <cstddef>

#include "dissectors/protocol/header.hpp"

namespace rdmawire {

/// Number of bytes of `layer` in the encoded packet. Exceeds the bytes of the value if encoding pads the last unit.
std::size_t bytes_in_packet(const HeaderValue& layer);

}  // namespace rdmawire
