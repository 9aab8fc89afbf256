#pragma once
/// Checksums of network and transport headers: verification as captured, and recomputation after changes that preserve
/// all lengths.

#include <cstdint>
#include <string_view>
#include <vector>

#include "dissectors/protocol/crc.hpp"
#include "dissectors/protocol/stack.hpp"

namespace rdmawire::captures {

/// An Internet checksum of IPv4, UDP, TCP, ICMP, ICMPv6 or GRE.
struct Checksum {
  std::string_view name;                               ///< "UDP checksum"
  std::uint32_t at = 0;                                ///< offset of its two bytes
  Range covered;                                       ///< covered bytes, including the checksum
  Range addresses;                                     ///< addresses of the pseudo header (length 0: none)
  std::uint32_t constant = 0;                          ///< sum of the rest of the pseudo header
  bool whole = false;                                  ///< all covered bytes are in this packet
  bool zero_is_none = false;                           ///< the value zero means that there is no checksum (UDP)
  CrcCheck::Status status = CrcCheck::Status::absent;  ///< as captured
};

/// Checksums of a packet in the order of recomputation: innermost first.
std::vector<Checksum> checksums_of(const HeaderStack& stack);

/// Recomputes a checksum. If covered bytes are missing, updates the checksum for the difference between `before` and
/// `packet` (of equal length), which preserves its validity. RFC 1624.
void recompute(const Checksum& checksum, Bytes before, MutableBytes packet);

}  // namespace rdmawire::captures
