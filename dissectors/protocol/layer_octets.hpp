#pragma once
/// How long a header is in the packet that encoding makes.

#include <cstddef>

#include "dissectors/protocol/header.hpp"

namespace rdmawire {

/// Octets that `layer` takes in its packet: more than the value has where encoding completes its last unit.
std::size_t octets_in_packet(const HeaderValue& layer);

}  // namespace rdmawire
