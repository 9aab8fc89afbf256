#pragma once
/// Link types of captured packets, with the numbers of capture files (www.tcpdump.org/linktypes.html).

#include <cstdint>

namespace rdmawire {

/// A capture file's link type. Other numbers can occur: their packets are kept, and decode reports the unsupported
/// link type.
enum class LinkType : std::uint16_t {
  null_loopback = 0,  ///< BSD loopback: a host-order address family, then IP
  ethernet = 1,       ///< Ethernet II
  raw_ip = 101,       ///< IPv4 or IPv6, by the first nibble
  linux_sll = 113,    ///< Linux cooked capture
  erf = 197,          ///< Endace's extensible record format (contains InfiniBand records)
  ipv4 = 228,
  ipv6 = 229,
  infiniband = 247,  ///< starts with the LRH
  linux_sll2 = 276,  ///< Linux cooked capture, version 2
};

}  // namespace rdmawire
