#pragma once
/// The Address Resolution Protocol, over Ethernet and over InfiniBand.

#include "dissectors/protocol/cursor.hpp"
#include "dissectors/protocol/ethernet.hpp"
#include "dissectors/protocol/header.hpp"

namespace rdmawire {

namespace arp_hardware {
inline constexpr std::uint16_t ethernet = 1, infiniband = 32;
}
inline constexpr Name arp_hardware_entries[] = {
    {arp_hardware::ethernet, "Ethernet", ""},
    {arp_hardware::infiniband, "InfiniBand", "addresses of 20 bytes: flags, QP, GID"},
};
inline constexpr Names arp_hardware_names{"ARP hardware type", arp_hardware_entries, "IANA ARP parameters"};

inline constexpr Name arp_operation_entries[] = {
    {1, "request", "requests the hardware address of the target's protocol address"},
    {2, "reply", "the sender owns the address"},
    {3, "RARP request", "requests the protocol address of the target's hardware address"},
    {4, "RARP reply", "response to a RARP request"},
};
inline constexpr Names arp_operation_names{"ARP operation", arp_operation_entries, "RFC 826; RFC 903"};

/// Start of every ARP packet. The addresses follow.
struct Arp {
  static constexpr std::string_view name = "arp", title = "Address Resolution Protocol", section = "RFC 826";
  static constexpr std::size_t size = 8;
  static constexpr std::array fields{
      field("hardware", 0, 16, "kind of hardware address").of(arp_hardware_names).alias("arp.hw.type"),
      field("protocol", 16, 16, "kind of protocol address: an EtherType")
          .hex()
          .of(ethertype_names)
          .alias("arp.proto.type"),
      field("hardware_length", 32, 8, "length of a hardware address in bytes").alias("arp.hw.size"),
      field("protocol_length", 40, 8, "length of a protocol address in bytes").alias("arp.proto.size"),
      field("operation", 48, 16, "request or reply").of(arp_operation_names).alias("arp.opcode"),
  };
};

/// The addresses of ARP for IPv4 over Ethernet.
struct ArpEthernet {
  static constexpr std::string_view name = "arp_ethernet", title = "ARP addresses: IPv4 over Ethernet",
                                    section = "RFC 826";
  static constexpr std::size_t size = 20;
  static constexpr std::array fields{
      field("sender_hardware", 0, 48, "sender's Ethernet address").as(Display::mac).alias("arp.src.hw_mac"),
      field("sender_protocol", 48, 32, "sender's IPv4 address").as(Display::ipv4).alias("arp.src.proto_ipv4"),
      field("target_hardware", 80, 48, "target's Ethernet address (without meaning in a request)")
          .as(Display::mac)
          .alias("arp.dst.hw_mac"),
      field("target_protocol", 128, 32, "target's IPv4 address").as(Display::ipv4).alias("arp.dst.proto_ipv4"),
  };
};

/// The addresses of ARP for IPv4 over InfiniBand.
struct ArpInfiniband {
  static constexpr std::string_view name = "arp_infiniband", title = "ARP addresses: IPv4 over InfiniBand",
                                    section = "RFC 4391, 9.1.1";
  static constexpr std::size_t size = 48;
  static constexpr std::array fields{
      field("sender_flags", 0, 8, "IPoIB modes of the sender's interface in addition to datagram mode").hex(),
      field("sender_flags.rc", 0, 1, "connected mode over RC").in("RFC 4755, 3.1"),
      field("sender_flags.uc", 1, 1, "connected mode over UC").in("RFC 4755, 3.1"),
      field("sender_qp", 8, 24, "sender's UD queue pair").hex(),
      field("sender_gid", 32, 128, "sender's port").as(Display::ipv6),
      field("sender_protocol", 160, 32, "sender's IPv4 address").as(Display::ipv4).alias("arp.src.proto_ipv4"),
      field("target_flags", 192, 8, "IPoIB modes of the target's interface in addition to datagram mode").hex(),
      field("target_flags.rc", 192, 1, "connected mode over RC").in("RFC 4755, 3.1"),
      field("target_flags.uc", 193, 1, "connected mode over UC").in("RFC 4755, 3.1"),
      field("target_qp", 200, 24, "target's UD queue pair (zero in a request)").hex(),
      field("target_gid", 224, 128, "GID of the target's port (zero in a request)").as(Display::ipv6),
      field("target_protocol", 352, 32, "target's IPv4 address").as(Display::ipv4).alias("arp.dst.proto_ipv4"),
  };
};

Step decode_arp(Cursor& c);

}  // namespace rdmawire
