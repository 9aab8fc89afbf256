#pragma once
/// Wrong variants of the RoCEv2 ICRC for faults. dissectors/protocol computes the correct ICRC.

#include <cstdint>

#include "dissectors/protocol/bits.hpp"

namespace rdmawire::device {

struct IcrcMasks {
  bool hops = true;                 ///< true: replace TTL or hop limit by ones
  bool reserved = true;             ///< true: replace the reserved byte of the BTH by ones
  std::uint32_t headers_again = 0;  ///< number of bytes after the BTH to include twice
  std::uint32_t left_out = 0;       ///< number of trailing bytes to exclude
};

/// Compute the ICRC of a datagram from its IP header to the byte before the ICRC, in the byte order of load_icrc().
/// Requires IPv4 without options, or IPv6, then UDP and a BTH.
std::uint32_t icrc_with(Bytes datagram, bool ipv4, const IcrcMasks& masks);

}  // namespace rdmawire::device
