#pragma once
/// Shortens frames with valid headers, and divides IP packets into fragments.

#include <cstdint>
#include <optional>
#include <vector>

#include "dissectors/protocol/bits.hpp"
#include "dissectors/protocol/link_type.hpp"

namespace rdmawire::replay {

/// Shortens the frame to at most `most` bytes: the lengths in the IP, UDP and GRH headers and the checksums become
/// those of a frame with less payload. A RoCE packet keeps an ICRC, and its payload becomes a multiple of 4 bytes.
/// Frames without an IP header or a GRH are truncated. Returns the new length, and changes only these bytes of the
/// frame. nullopt: the headers exceed `most` bytes or are incomplete. The frame may then be changed.
std::optional<std::size_t> shorten_frame(MutableBytes frame, LinkType link, std::size_t most);

/// Divides an IPv4 or IPv6 packet into fragments (RFC 791, 3.2, RFC 8200, 4.5) in frames of at most `most` bytes with
/// the same link header. IPv4 fragments keep the identification and DF bit, because the ICRC covers them.
/// `identification` is used for IPv6. Returns an empty list if the frame is not a complete IP packet, has IP options or
/// extension headers, or if `most` is too small.
std::vector<std::vector<std::uint8_t>> fragment_frame(Bytes frame, LinkType link, std::size_t most,
                                                      std::uint32_t identification);

}  // namespace rdmawire::replay
