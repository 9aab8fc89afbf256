#pragma once
/// Length of a header in an encoded packet.

#include <cstddef>

#include "dissectors/protocol/header.hpp"

namespace rdmawire {

/// Number of bytes of `layer` in the encoded packet. It exceeds the size of the value if encoding pads the variable
/// part to a whole unit.
std::size_t bytes_in_packet(const HeaderValue& layer);

}  // namespace rdmawire
