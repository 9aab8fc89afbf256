#pragma once
/// The checksums of a packet's network and transport headers: judged as captured, and made good again after a rewrite
/// that kept every length.

#include <cstdint>
#include <string_view>
#include <vector>

#include "dissectors/protocol/crc.hpp"
#include "dissectors/protocol/stack.hpp"

namespace rdmawire::captures {

/// A checksum and what it covers: the Internet checksum of IPv4, UDP, TCP, ICMP, ICMPv6 and GRE.
struct Checksum {
  std::string_view name;                               ///< "UDP checksum"
  std::uint32_t at = 0;                                ///< offset of its two bytes
  Range covered;                                       ///< what it covers of the captured bytes; it lies inside itself
  Range addresses;                                     ///< the pseudo header's; length 0: none
  std::uint32_t constant = 0;                          ///< the rest of the pseudo header, summed
  bool whole = false;                                  ///< all that it covers was captured and is in this packet
  bool zero_is_none = false;                           ///< UDP
  CrcCheck::Status status = CrcCheck::Status::absent;  ///< as captured
};

/// The checksums of a packet, the innermost first: in this order they are to be made good.
std::vector<Checksum> checksums_of(const HeaderStack& stack);

/// Writes a checksum anew. Where it covers bytes that are not in the packet, the change from `before` to `packet`
/// (which are equally long) is applied to it instead: it is right or wrong as it was. RFC 1624.
void make_good(const Checksum& checksum, Bytes before, MutableBytes packet);

}  // namespace rdmawire::captures
