#pragma once
/// IPv4 and IPv6 with their options and extension headers.

#include "dissectors/protocol/cursor.hpp"
#include "dissectors/protocol/header.hpp"

namespace rdmawire {

/// Supported protocol numbers (IANA).
namespace ip_protocol {
inline constexpr std::uint8_t hop_by_hop = 0, icmp = 1, ipv4 = 4, tcp = 6, udp = 17, ipv6 = 41, routing = 43,
                              fragment = 44, gre = 47, esp = 50, authentication = 51, icmpv6 = 58, none = 59,
                              destination = 60;
}
inline constexpr Name ip_protocol_entries[] = {
    {ip_protocol::hop_by_hop, "hop-by-hop options", ""},
    {ip_protocol::icmp, "ICMP", ""},
    {ip_protocol::ipv4, "IPv4", "IP in IP"},
    {ip_protocol::tcp, "TCP", ""},
    {ip_protocol::udp, "UDP", ""},
    {27, "InfiniBand", "used in a GRH before a BTH"},
    {ip_protocol::ipv6, "IPv6", "IPv6 in IP"},
    {ip_protocol::routing, "routing", ""},
    {ip_protocol::fragment, "fragment", ""},
    {ip_protocol::gre, "GRE", ""},
    {ip_protocol::esp, "ESP", "encrypted"},
    {ip_protocol::authentication, "AH", ""},
    {ip_protocol::icmpv6, "ICMPv6", ""},
    {ip_protocol::none, "none", "nothing follows"},
    {ip_protocol::destination, "destination options", ""},
};
inline constexpr Names ip_protocol_names{"IP protocol", ip_protocol_entries, "IANA protocol numbers"};

inline constexpr Name ecn_entries[] = {
    {0, "Not-ECT", "the sender does not support ECN"},
    {1, "ECT(1)", "the sender supports ECN"},
    {2, "ECT(0)", "the sender supports ECN"},
    {3, "CE", "congestion experienced: a switch marked the packet"},
};
inline constexpr Names ecn_names{"ECN", ecn_entries, "RFC 3168, 5"};

struct Ipv4 {
  static constexpr std::string_view name = "ip", title = "Internet Protocol, version 4", section = "RFC 791, 3.1";
  static constexpr std::size_t size = 20;
  static constexpr std::string_view tail = "options";
  static constexpr std::string_view counted_by = "header_length";
  static constexpr std::uint32_t unit = 4;
  static constexpr std::array fields{
      field("version", 0, 4, "4").alias("ip.version"),
      field("header_length", 4, 4, "length of the header in units of 4 bytes").computed(),
      field("header_length.bytes", 4, 4, "length of the header in bytes").means(&bytes_of_words).alias("ip.hdr_len"),
      field("tos", 8, 8, "type of service").hex().alias("ip.dsfield"),
      field("tos.dscp", 8, 6, "differentiated services code point").in("RFC 2474, 3").alias("ip.dsfield.dscp"),
      field("tos.ecn", 14, 2, "explicit congestion notification")
          .of(ecn_names)
          .in("RFC 3168, 5")
          .alias("ip.dsfield.ecn"),
      field("total_length", 16, 16, "length of the datagram, including this header, in bytes")
          .alias("ip.len")
          .computed(),
      field("identification", 32, 16, "identifies the fragments of a datagram").hex().alias("ip.id"),
      reserved("reserved", 48, 1).alias("ip.flags.rb"),
      field("df", 49, 1, "do not fragment").alias("ip.flags.df"),
      field("mf", 50, 1, "more fragments follow").alias("ip.flags.mf"),
      field("fragment_offset", 51, 13, "offset of the fragment in units of 8 bytes").alias("ip.frag_offset"),
      field("ttl", 64, 8, "hops left").alias("ip.ttl"),
      field("protocol", 72, 8, "next header").of(ip_protocol_names).alias("ip.proto").computed(),
      field("checksum", 80, 16, "checksum of this header").hex().alias("ip.checksum").computed(),
      field("src", 96, 32, "source address").as(Display::ipv4).alias("ip.src").alias("ip.addr"),
      field("dst", 128, 32, "destination address").as(Display::ipv4).alias("ip.dst").alias("ip.addr"),
  };
  static Parts parts(Bytes header);
  static void fill(FrameLayout& frame, std::size_t index);
};

struct Ipv6 {
  static constexpr std::string_view name = "ipv6", title = "Internet Protocol, version 6", section = "RFC 8200, 3";
  static constexpr std::size_t size = 40;
  static constexpr std::array fields{
      field("version", 0, 4, "6").alias("ipv6.version").alias("ip.version"),
      field("traffic_class", 4, 8, "DSCP and ECN").hex().alias("ipv6.tclass"),
      field("traffic_class.dscp", 4, 6, "differentiated services code point")
          .in("RFC 2474, 3")
          .alias("ipv6.tclass.dscp"),
      field("traffic_class.ecn", 10, 2, "explicit congestion notification")
          .of(ecn_names)
          .in("RFC 3168, 5")
          .alias("ipv6.tclass.ecn"),
      field("flow_label", 12, 20, "sender-defined flow identifier").hex().alias("ipv6.flow"),
      field("payload_length", 32, 16, "length of the datagram after this header, in bytes")
          .alias("ipv6.plen")
          .computed(),
      field("next_header", 48, 8, "next header").of(ip_protocol_names).alias("ipv6.nxt").computed(),
      field("hop_limit", 56, 8, "hops left").alias("ipv6.hlim"),
      field("src", 64, 128, "source address").as(Display::ipv6).alias("ipv6.src").alias("ipv6.addr"),
      field("dst", 192, 128, "destination address").as(Display::ipv6).alias("ipv6.dst").alias("ipv6.addr"),
  };
  static void fill(FrameLayout& frame, std::size_t index);
};

/// The common start of hop-by-hop, routing and destination options headers.
struct Ipv6Extension {
  static constexpr std::string_view name = "ipv6_ext", title = "IPv6 extension header", section = "RFC 8200, 4";
  static constexpr std::size_t size = 8;
  static constexpr std::string_view tail = "more_data";
  static constexpr std::string_view counted_by = "length";
  static constexpr std::uint32_t unit = 8;
  static constexpr std::array fields{
      field("next_header", 0, 8, "next header").of(ip_protocol_names),
      field("length", 8, 8, "length in units of 8 bytes, without the first 8 bytes"),
      field("data", 16, 48, "options (routing header: routing type, segments left and data)").as(Display::bytes),
  };
  static void fill(FrameLayout& frame, std::size_t index);
};

struct Ipv6Fragment {
  static constexpr std::string_view name = "ipv6_fragment", title = "IPv6 fragment header", section = "RFC 8200, 4.5";
  static constexpr std::size_t size = 8;
  static constexpr std::array fields{
      field("next_header", 0, 8, "next header").of(ip_protocol_names).alias("ipv6.fraghdr.nxt"),
      reserved("reserved", 8, 8),
      field("offset", 16, 13, "offset of the fragment in units of 8 bytes").alias("ipv6.fraghdr.offset"),
      reserved("reserved2", 29, 2),
      field("more", 31, 1, "more fragments follow").alias("ipv6.fraghdr.more"),
      field("identification", 32, 32, "identifies the fragments of a datagram").hex().alias("ipv6.fraghdr.ident"),
  };
  static void fill(FrameLayout& frame, std::size_t index);
};

struct Ipv6Authentication {
  static constexpr std::string_view name = "ah", title = "Authentication Header", section = "RFC 4302, 2";
  static constexpr std::size_t size = 12;
  static constexpr std::string_view tail = "icv";
  static constexpr std::string_view counted_by = "length";
  static constexpr std::uint32_t unit = 4;
  static constexpr std::array fields{
      field("next_header", 0, 8, "next header").of(ip_protocol_names).alias("ah.next_header"),
      field("length", 8, 8, "length in units of 4 bytes, minus 2").alias("ah.length"),
      reserved("reserved", 16, 16),
      field("spi", 32, 32, "security parameters index").hex().alias("ah.spi"),
      field("sequence", 64, 32, "sequence number").alias("ah.sequence"),
  };
  static void fill(FrameLayout& frame, std::size_t index);
};

inline constexpr Name ip_option_entries[] = {
    {0, "end of options", ""},       {1, "no operation", ""},          {7, "record route", ""},   {68, "timestamp", ""},
    {131, "loose source route", ""}, {137, "strict source route", ""}, {148, "router alert", ""},
};
inline constexpr Names ip_option_names{"IPv4 option", ip_option_entries, "IANA IP option numbers"};

/// One IPv4 option of more than one byte.
struct Ipv4Option {
  static constexpr std::string_view name = "ip_option", title = "IPv4 option", section = "RFC 791, 3.1";
  static constexpr std::size_t size = 2;
  static constexpr std::string_view tail = "data";
  static constexpr std::array fields{
      field("type", 0, 8, "kind of option").of(ip_option_names).alias("ip.opt.type"),
      field("length", 8, 8, "bytes of the option").alias("ip.opt.len"),
  };
};

/// An IPv4 option that consists only of a type: end of options, no operation.
struct Ipv4OptionByte {
  static constexpr std::string_view name = "ip_option_byte", title = "IPv4 option of one byte",
                                    section = "RFC 791, 3.1";
  static constexpr std::size_t size = 1;
  static constexpr std::array fields{
      field("type", 0, 8, "kind of option").of(ip_option_names).alias("ip.opt.type"),
  };
};

Step decode_ipv4(Cursor& c);
Step decode_ipv6(Cursor& c);
/// Decodes IPv4 or IPv6. The first four bits contain the version.
Step decode_raw_ip(Cursor& c);
/// Returns the protocol number of header `next`. Returns ip_protocol::none if `next` is nullptr or unsupported.
std::uint8_t ip_protocol_of(const HeaderInfo* next);

}  // namespace rdmawire
