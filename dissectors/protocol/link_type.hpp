#pragma once
/// Link types of captured packets. The numbers are those of capture files (www.tcpdump.org/linktypes.html).

#include <cstdint>

namespace rdmawire {

/// A capture file's link type. Other numbers can occur: their packets are kept, and decode() adds a finding.
enum class LinkType : std::uint16_t {
  null_loopback = 0,  ///< BSD loopback: an address family in host byte order, then IP
  ethernet = 1,       ///< Ethernet II
  raw_ip = 101,       ///< IPv4 or IPv6, according to the first four bits
  linux_sll = 113,    ///< Linux cooked capture
  erf = 197,          ///< Endace's extensible record format. Records can contain InfiniBand packets
  ipv4 = 228,
  ipv6 = 229,
  infiniband = 247,  ///< packets start with the LRH
  linux_sll2 = 276,  ///< Linux cooked capture, version 2
};

}  // namespace rdmawire
