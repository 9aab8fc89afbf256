#pragma once
/// Checksums of network and transport headers. They are verified as captured, and recomputed after changes that
/// preserve all lengths.

#include <cstdint>
#include <string_view>
#include <vector>

#include "dissectors/protocol/crc.hpp"
#include "dissectors/protocol/stack.hpp"

namespace rdmawire::captures {

/// An Internet checksum of IPv4, UDP, TCP, ICMP, ICMPv6 or GRE.
struct Checksum {
  std::string_view name;                               ///< name, such as "UDP checksum"
  std::uint32_t at = 0;                                ///< offset of its two bytes
  Range covered;                                       ///< bytes that the checksum covers, including the checksum
  Range addresses;                                     ///< addresses of the pseudo header (length 0: none)
  std::uint32_t constant = 0;                          ///< sum of the rest of the pseudo header
  bool whole = false;                                  ///< all covered bytes are in this packet
  bool zero_is_none = false;                           ///< the value zero means that there is no checksum (UDP)
  CrcCheck::Status status = CrcCheck::Status::absent;  ///< result of verification, as captured
};

/// Returns the checksums of a packet in the order in which they must be recomputed: innermost first.
std::vector<Checksum> checksums_of(const HeaderStack& stack);

/// Recomputes a checksum. If covered bytes are missing, updates the checksum according to the difference between
/// `before` and `packet`, which must have the same length. A valid checksum then remains valid. RFC 1624.
void recompute(const Checksum& checksum, Bytes before, MutableBytes packet);

}  // namespace rdmawire::captures
