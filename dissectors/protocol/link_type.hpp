#pragma once
/// The outermost layer of a captured packet, by the numbers that capture files use (www.tcpdump.org/linktypes.html).

#include <cstdint>

namespace rdmawire {

/// A capture file's link type. Other numbers can occur: such packets are kept, and decode says that it does not know
/// their link.
enum class LinkType : std::uint16_t {
  null_loopback = 0,  ///< BSD loopback: a host-order address family, then IP
  ethernet = 1,       ///< Ethernet II
  raw_ip = 101,       ///< IPv4 or IPv6, by the first nibble
  linux_sll = 113,    ///< Linux cooked capture
  erf = 197,          ///< Endace's extensible record format; carries InfiniBand records
  ipv4 = 228,
  ipv6 = 229,
  infiniband = 247,  ///< from the LRH on
  linux_sll2 = 276,  ///< Linux cooked capture, version 2
};

}  // namespace rdmawire
