#pragma once
/// Length of a header in the encoded packet.

#include <cstddef>

#include "dissectors/protocol/header.hpp"

namespace rdmawire {

/// Bytes of `layer` in its packet: more than in the value if encoding pads its last unit.
std::size_t bytes_in_packet(const HeaderValue& layer);

}  // namespace rdmawire
