#pragma once
/// Ethernet II with VLAN tags, and pseudo link layers of captures: Linux cooked, BSD loopback, ERF.

#include "dissectors/protocol/cursor.hpp"
#include "dissectors/protocol/header.hpp"

namespace rdmawire {

/// Supported EtherTypes (IEEE registration authority).
namespace ethertype {
inline constexpr std::uint16_t ipv4 = 0x0800, arp = 0x0806, teb = 0x6558, vlan = 0x8100, ipv6 = 0x86dd, pause = 0x8808,
                               provider_vlan = 0x88a8, erspan2 = 0x88be, roce_v1 = 0x8915, old_provider_vlan = 0x9100,
                               erspan3 = 0x22eb;
inline constexpr std::uint16_t lowest = 0x0600;  ///< smaller values of the field are 802.3 lengths
}  // namespace ethertype
inline constexpr Name ethertype_entries[] = {
    {ethertype::ipv4, "IPv4", ""},
    {ethertype::arp, "ARP", ""},
    {ethertype::erspan3, "ERSPAN type III", "a mirrored frame inside GRE"},
    {ethertype::teb, "Ethernet bridging", "a complete Ethernet frame"},
    {ethertype::vlan, "802.1Q", "a VLAN tag"},
    {ethertype::ipv6, "IPv6", ""},
    {ethertype::pause, "MAC control", "pause and priority flow control"},
    {ethertype::provider_vlan, "802.1ad", "an outer (provider) VLAN tag"},
    {ethertype::erspan2, "ERSPAN type II", "a mirrored frame inside GRE"},
    {ethertype::roce_v1, "RoCEv1", "a GRH and InfiniBand's transport"},
    {ethertype::old_provider_vlan, "802.1QinQ", "an outer VLAN tag of switches before 802.1ad"},
};
inline constexpr Names ethertype_names{"EtherType", ethertype_entries, "IEEE 802"};

/// Ethernet II, without preamble. The frame check sequence is usually not captured.
struct Ethernet {
  static constexpr std::string_view name = "eth", title = "Ethernet II", section = "IEEE 802.3, 3.2";
  static constexpr std::size_t size = 14;
  static constexpr std::array fields{
      field("dst", 0, 48, "destination address").as(Display::mac).alias("eth.dst").alias("eth.addr"),
      field("src", 48, 48, "source address").as(Display::mac).alias("eth.src").alias("eth.addr"),
      field("type", 96, 16, "next header").hex().of(ethertype_names).alias("eth.type").computed(),
  };
  static void fill(FrameLayout& frame, std::size_t index);
};

/// A VLAN tag. Another one can follow.
struct Vlan {
  static constexpr std::string_view name = "vlan", title = "VLAN tag", section = "IEEE 802.1Q, 9.6";
  static constexpr std::size_t size = 4;
  static constexpr std::array fields{
      field("priority", 0, 3, "priority code point: the traffic class").alias("vlan.priority"),
      field("dei", 3, 1, "drop eligible").alias("vlan.dei"),
      field("id", 4, 12, "VLAN").alias("vlan.id"),
      field("type", 16, 16, "next header").hex().of(ethertype_names).alias("vlan.etype"),
  };
  static void fill(FrameLayout& frame, std::size_t index);
};

/// Linux cooked capture: used by "any" devices.
struct LinuxSll {
  static constexpr std::string_view name = "sll", title = "Linux cooked capture",
                                    section = "tcpdump.org, LINKTYPE_LINUX_SLL";
  static constexpr std::size_t size = 16;
  static constexpr std::array fields{
      field("packet_type", 0, 16, "0 to us, 1 broadcast, 2 multicast, 3 to others, 4 from us").alias("sll.pkttype"),
      field("arphrd", 16, 16, "kind of device").alias("sll.hatype"),
      field("address_length", 32, 16, "number of valid bytes in the address").alias("sll.halen"),
      field("address", 48, 64, "sender's link address").as(Display::bytes),
      field("protocol", 112, 16, "next header").hex().of(ethertype_names).alias("sll.etype").computed(),
  };
  static void fill(FrameLayout& frame, std::size_t index);
};

/// Linux cooked capture, version 2.
struct LinuxSll2 {
  static constexpr std::string_view name = "sll2", title = "Linux cooked capture v2",
                                    section = "tcpdump.org, LINKTYPE_LINUX_SLL2";
  static constexpr std::size_t size = 20;
  static constexpr std::array fields{
      field("protocol", 0, 16, "next header").hex().of(ethertype_names).alias("sll.etype").computed(),
      reserved("reserved", 16, 16),
      field("interface", 32, 32, "interface index").alias("sll.ifindex"),
      field("arphrd", 64, 16, "kind of device").alias("sll.hatype"),
      field("packet_type", 80, 8, "0 to us, 1 broadcast, 2 multicast, 3 to others, 4 from us").alias("sll.pkttype"),
      field("address_length", 88, 8, "number of valid bytes in the address").alias("sll.halen"),
      field("address", 96, 64, "sender's link address").as(Display::bytes),
  };
  static void fill(FrameLayout& frame, std::size_t index);
};

/// BSD loopback: the address family in the byte order of the capturing host.
struct NullLoopback {
  static constexpr std::string_view name = "null", title = "BSD loopback", section = "tcpdump.org, LINKTYPE_NULL";
  static constexpr std::size_t size = 4;
  static constexpr std::array fields{
      field("family", 0, 32, "address family, in the capturing host's byte order").hex(),
  };
};

inline constexpr Name erf_type_entries[] = {
    {2, "Ethernet", ""}, {21, "InfiniBand", ""}, {22, "IPv4", ""}, {23, "IPv6", ""}, {25, "InfiniBand link", ""},
};
inline constexpr Names erf_type_names{"ERF record type", erf_type_entries, "Endace ERF types"};

/// The record header of Endace's extensible record format.
struct Erf {
  static constexpr std::string_view name = "erf", title = "ERF record", section = "Endace ERF types";
  static constexpr std::size_t size = 16;
  static constexpr std::string_view tail = "extensions";
  static constexpr std::array fields{
      field("timestamp", 0, 64, "time since 1970 in units of 2^-32 seconds").hex().le().alias("erf.ts"),
      field("type", 64, 8, "kind of record").hex().alias("erf.types"),
      field("type.extended", 64, 1, "extension headers follow").alias("erf.types.ext_header"),
      field("type.kind", 65, 7, "kind of record").of(erf_type_names).alias("erf.types.type"),
      field("flags", 72, 8, "capture port and status of the packet").hex().alias("erf.flags"),
      field("flags.card_error", 74, 1, "data stream error in the capture card").alias("erf.flags.dse"),
      field("flags.receive_error", 75, 1, "the port received the packet with an error").alias("erf.flags.rxe"),
      field("flags.truncated", 76, 1, "the record is shorter than the packet").alias("erf.flags.trunc"),
      field("flags.varying_length", 77, 1, "the length of records depends on their packets").alias("erf.flags.vlen"),
      field("flags.interface", 78, 2, "capture port").alias("erf.flags.cap"),
      field("record_length", 80, 16, "bytes of the whole record").alias("erf.rlen"),
      field("loss", 96, 16, "number of packets lost before this one, or color").alias("erf.lctr"),
      field("wire_length", 112, 16, "bytes on the wire").alias("erf.wlen"),
  };
};

Step decode_ethernet(Cursor& c);
Step decode_linux_sll(Cursor& c);
Step decode_linux_sll2(Cursor& c);
Step decode_null_loopback(Cursor& c);
Step decode_erf(Cursor& c);
/// Returns the decoder for an EtherType. For unsupported EtherTypes, it decodes payload.
Step step_for_ethertype(std::uint16_t type);
/// Returns the EtherType of header `next`, or 0.
std::uint16_t ethertype_of(const HeaderInfo& next);
/// Sets the EtherType `field` of layer `index` according to the next layer. Keeps the value if the next header is
/// unsupported or the value is already valid for it. For example, several EtherTypes mean VLAN.
void announce_ethertype(FrameLayout& frame, std::size_t index, std::string_view field);

}  // namespace rdmawire
