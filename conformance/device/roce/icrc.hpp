#pragma once
/// The ICRC of RoCEv2 computed in ways that the specification does not mean; right ones are dissectors/protocol's.

#include <cstdint>

#include "dissectors/protocol/bits.hpp"

namespace rdmawire::device {

struct IcrcMasks {
  bool hops = true;                 ///< TTL or hop limit counts as ones
  bool reserved = true;             ///< the BTH's reserved byte does
  std::uint32_t headers_again = 0;  ///< bytes behind the BTH that are covered once more
  std::uint32_t left_out = 0;       ///< bytes at the end that are not covered
};

/// Over a datagram from its IP header to its end without the ICRC; as load_icrc() reads it. Requires IPv4 without
/// options, or IPv6; UDP; a BTH.
std::uint32_t icrc_with(Bytes datagram, bool ipv4, const IcrcMasks& masks);

}  // namespace rdmawire::device
