#pragma once
/// How long a header is in the packet that encoding makes.

#include <cstddef>

#include "dissectors/protocol/header.hpp"

namespace rdmawire {

/// Bytes that `layer` takes in its packet: more than the value has where encoding completes its last unit.
std::size_t bytes_in_packet(const HeaderValue& layer);

}  // namespace rdmawire
