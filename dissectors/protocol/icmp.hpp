#pragma once
/// ICMP, ICMPv6 and IPv6 neighbor discovery.

#include "dissectors/protocol/cursor.hpp"
#include "dissectors/protocol/header.hpp"

namespace rdmawire {

namespace icmp_type {
inline constexpr std::uint8_t echo_reply = 0, unreachable = 3, redirect = 5, echo_request = 8, time_exceeded = 11;
}
inline constexpr Name icmp_type_entries[] = {
    {icmp_type::echo_reply, "echo reply", ""},
    {icmp_type::unreachable, "destination unreachable", ""},
    {icmp_type::redirect, "redirect", "another next hop is better for this destination"},
    {icmp_type::echo_request, "echo request", "ping"},
    {icmp_type::time_exceeded, "time exceeded", "hop limit exceeded, or fragments missing"},
};
inline constexpr Names icmp_type_names{"ICMP type", icmp_type_entries, "RFC 792; IANA ICMP parameters"};

struct Icmp {
  static constexpr std::string_view name = "icmp", title = "Internet Control Message Protocol", section = "RFC 792";
  static constexpr std::string_view kind = "type";
  static constexpr std::size_t size = 4;
  static constexpr std::array fields{
      field("type", 0, 8, "kind of message").of(icmp_type_names).alias("icmp.type"),
      field("code", 8, 8, "subtype of the message").alias("icmp.code"),
      field("checksum", 16, 16, "checksum of the whole message").hex().alias("icmp.checksum").computed(),
  };
};

/// Fields of an echo request or reply before its data.
struct IcmpEcho {
  static constexpr std::string_view name = "icmp_echo", title = "ICMP echo", section = "RFC 792";
  static constexpr std::size_t size = 4;
  static constexpr std::array fields{
      field("identifier", 0, 16, "distinguishes programs of the requester"),
      field("sequence", 16, 16, "number of the request").alias("icmp.seq"),
  };
};

namespace icmpv6_type {
inline constexpr std::uint8_t unreachable = 1, too_big = 2, time_exceeded = 3, parameter_problem = 4,
                              echo_request = 128, echo_reply = 129, listener_query = 130, listener_report = 131,
                              listener_done = 132, router_solicitation = 133, router_advertisement = 134,
                              neighbor_solicitation = 135, neighbor_advertisement = 136, redirect = 137,
                              listener_report_2 = 143;
}
inline constexpr Name icmpv6_type_entries[] = {
    {icmpv6_type::unreachable, "destination unreachable", ""},
    {icmpv6_type::too_big, "packet too big", "the next hop's MTU is smaller"},
    {icmpv6_type::time_exceeded, "time exceeded", "hop limit exceeded, or fragments missing"},
    {icmpv6_type::parameter_problem, "parameter problem", "an unrecognized header"},
    {icmpv6_type::echo_request, "echo request", "ping"},
    {icmpv6_type::echo_reply, "echo reply", ""},
    {icmpv6_type::listener_query, "multicast listener query", ""},
    {icmpv6_type::listener_report, "multicast listener report", ""},
    {icmpv6_type::listener_done, "multicast listener done", ""},
    {icmpv6_type::router_solicitation, "router solicitation", "requests router advertisements"},
    {icmpv6_type::router_advertisement, "router advertisement", ""},
    {icmpv6_type::neighbor_solicitation, "neighbor solicitation", "requests the link address of the target"},
    {icmpv6_type::neighbor_advertisement, "neighbor advertisement", "contains the sender's link address"},
    {icmpv6_type::redirect, "redirect", "another next hop is better for this destination"},
    {icmpv6_type::listener_report_2, "multicast listener report, version 2", ""},
};
inline constexpr Names icmpv6_type_names{"ICMPv6 type", icmpv6_type_entries, "RFC 4443; IANA ICMPv6 parameters"};

struct Icmpv6 {
  static constexpr std::string_view name = "icmpv6", title = "Internet Control Message Protocol for IPv6",
                                    section = "RFC 4443, 2.1";
  static constexpr std::string_view kind = "type";
  static constexpr std::size_t size = 4;
  static constexpr std::array fields{
      field("type", 0, 8, "kind of message").of(icmpv6_type_names).alias("icmpv6.type"),
      field("code", 8, 8, "subtype of the message").alias("icmpv6.code"),
      field("checksum", 16, 16, "checksum of pseudo header and message").hex().alias("icmpv6.checksum").computed(),
  };
};

struct Icmpv6Echo {
  static constexpr std::string_view name = "icmpv6_echo", title = "ICMPv6 echo", section = "RFC 4443, 4.1";
  static constexpr std::size_t size = 4;
  static constexpr std::array fields{
      field("identifier", 0, 16, "distinguishes programs of the requester").alias("icmpv6.echo.identifier"),
      field("sequence", 16, 16, "number of the request").alias("icmpv6.echo.sequence_number"),
  };
};

struct RouterSolicitation {
  static constexpr std::string_view name = "nd_rs", title = "Router solicitation", section = "RFC 4861, 4.1";
  static constexpr std::size_t size = 4;
  static constexpr std::array fields{reserved("reserved", 0, 32)};
};

struct RouterAdvertisement {
  static constexpr std::string_view name = "nd_ra", title = "Router advertisement", section = "RFC 4861, 4.2";
  static constexpr std::size_t size = 12;
  static constexpr std::array fields{
      field("hop_limit", 0, 8, "initial hop limit of hosts (0: unspecified)").alias("icmpv6.nd.ra.cur_hop_limit"),
      field("managed", 8, 1, "addresses are available from DHCPv6").alias("icmpv6.nd.ra.flag.m"),
      field("other", 9, 1, "other settings are available from DHCPv6").alias("icmpv6.nd.ra.flag.o"),
      field("flags", 10, 6, "further flags").hex().in("RFC 5175"),
      field("lifetime", 16, 16, "how long the router is a default router, in seconds")
          .alias("icmpv6.nd.ra.router_lifetime"),
      field("reachable_time", 32, 32, "how long a neighbor counts as reachable, in milliseconds (0: unspecified)")
          .alias("icmpv6.nd.ra.reachable_time"),
      field("retransmit_timer", 64, 32, "time between solicitations, in milliseconds (0: unspecified)")
          .alias("icmpv6.nd.ra.retrans_timer"),
  };
};

struct NeighborSolicitation {
  static constexpr std::string_view name = "nd_ns", title = "Neighbor solicitation", section = "RFC 4861, 4.3";
  static constexpr std::size_t size = 20;
  static constexpr std::array fields{
      reserved("reserved", 0, 32),
      field("target", 32, 128, "IP address to resolve").as(Display::ipv6).alias("icmpv6.nd.ns.target_address"),
  };
};

struct NeighborAdvertisement {
  static constexpr std::string_view name = "nd_na", title = "Neighbor advertisement", section = "RFC 4861, 4.4";
  static constexpr std::size_t size = 20;
  static constexpr std::array fields{
      field("router", 0, 1, "the sender is a router").alias("icmpv6.nd.na.flag.r"),
      field("solicited", 1, 1, "sent in response to a solicitation").alias("icmpv6.nd.na.flag.s"),
      field("override", 2, 1, "replaces a cached link address").alias("icmpv6.nd.na.flag.o"),
      reserved("reserved", 3, 29),
      field("target", 32, 128, "IP address of the link address").as(Display::ipv6).alias("icmpv6.nd.na.target_address"),
  };
};

struct NdRedirect {
  static constexpr std::string_view name = "nd_redirect", title = "Redirect", section = "RFC 4861, 4.5";
  static constexpr std::size_t size = 36;
  static constexpr std::array fields{
      reserved("reserved", 0, 32),
      field("target", 32, 128, "address of the better next hop").as(Display::ipv6).alias("icmpv6.nd.rd.target_address"),
      field("destination", 160, 128, "redirected destination").as(Display::ipv6),
  };
};

namespace nd_option {
inline constexpr std::uint8_t source = 1, target = 2, prefix = 3, redirected = 4, mtu = 5, nonce = 14;
}
inline constexpr Name nd_option_entries[] = {
    {nd_option::source, "source link address", ""},
    {nd_option::target, "target link address", ""},
    {nd_option::prefix, "prefix information", ""},
    {nd_option::redirected, "redirected header", ""},
    {nd_option::mtu, "MTU", ""},
    {nd_option::nonce, "nonce", "distinguishes a host's own solicitations"},
};
inline constexpr Names nd_option_names{"neighbor discovery option", nd_option_entries,
                                       "RFC 4861, 4.6; IANA ICMPv6 parameters"};

/// A neighbor discovery option without its own table.
struct NdOption {
  static constexpr std::string_view name = "nd_option", title = "Neighbor discovery option", section = "RFC 4861, 4.6";
  static constexpr std::size_t size = 2;
  static constexpr std::string_view tail = "data";
  static constexpr std::string_view counted_by = "length";
  static constexpr std::uint32_t unit = 8;
  static constexpr std::array fields{
      field("type", 0, 8, "kind of option").of(nd_option_names).alias("icmpv6.opt.type"),
      field("length", 8, 8, "length of the option in units of 8 bytes, including type and length")
          .alias("icmpv6.opt.length")
          .computed(),
  };
  static void fill(FrameLayout& frame, std::size_t index);
};

/// Ethernet address of the source or the target.
struct NdLinkAddress {
  static constexpr std::string_view name = "nd_link_address", title = "Neighbor discovery link address",
                                    section = "RFC 4861, 4.6.1";
  static constexpr std::size_t size = 8;
  static constexpr std::array fields{
      field("type", 0, 8, "1 source, 2 target").of(nd_option_names).alias("icmpv6.opt.type"),
      field("length", 8, 8, "1").alias("icmpv6.opt.length").computed(),
      field("address", 16, 48, "Ethernet address").as(Display::mac).alias("icmpv6.opt.linkaddr"),
  };
  static void fill(FrameLayout& frame, std::size_t index);
};

/// Link address of the source or the target on InfiniBand: a hardware address (RFC 4391) after two reserved bytes,
/// which align it.
struct NdIpoibLinkAddress {
  static constexpr std::string_view name = "nd_ipoib_link_address", title = "Neighbor discovery link address (IPoIB)",
                                    section = "RFC 4861, 4.6.1; RFC 4391, 9.1.1";
  static constexpr std::size_t size = 24;
  static constexpr std::array fields{
      field("type", 0, 8, "1 source, 2 target").of(nd_option_names).alias("icmpv6.opt.type"),
      field("length", 8, 8, "3").alias("icmpv6.opt.length").computed(),
      reserved("reserved", 16, 16),
      field("flags", 32, 8, "IPoIB modes of the interface in addition to datagram mode").hex(),
      field("flags.rc", 32, 1, "connected mode over RC").in("RFC 4755, 3.1"),
      field("flags.uc", 33, 1, "connected mode over UC").in("RFC 4755, 3.1"),
      field("qp", 40, 24, "UD queue pair").hex(),
      field("gid", 64, 128, "port").as(Display::ipv6),
  };
  static void fill(FrameLayout& frame, std::size_t index);
};

Step decode_icmp(Cursor& c);
Step decode_icmpv6(Cursor& c);

}  // namespace rdmawire
