/// Headers that the device adds according to the address vector: IBTA vol 1, A17.3.1 (IP), A17.3.2 (UDP), A17.3.3
/// (ICRC), A17.4.2 (service level and VLAN priority).

#include <fmt/format.h>

#include <deque>
#include <set>

#include "conformance/cases/files.hpp"
#include "conformance/cases/path_mtu.hpp"
#include "dissectors/protocol/crc.hpp"
#include "dissectors/protocol/ethernet.hpp"
#include "dissectors/protocol/ip.hpp"
#include "dissectors/protocol/transport.hpp"

namespace rdmawire::conformance::headers_ip_cases {
namespace {

using namespace nlohmann::literals;

// Frames of each kind that a responder sends: an ACK, a READ response with pad, a READ response of two packets.
/// A deque, because a parsed frame refers to its bytes.
std::deque<Seen> some_frames(Bench& bench, ConnectOptions options = {}) {
  options.receives = 1;
  options.mtu = 256;
  Connected& qp = bench.connect(options);
  std::deque<Seen> frames;
  bench >> qp.send_only(psn(+0));
  frames.push_back(bench.wait(ack(psn(+0))));
  bench >> qp.read(psn(+1), qp.at(0, 5));
  frames.push_back(bench.wait(read_response(Position::only, psn(+1))));
  bench >> qp.read(psn(+2), qp.at(0, 257));
  frames.push_back(bench.wait(read_response(Position::first, psn(+2))));
  frames.push_back(bench.wait(read_response(Position::last, psn(+3))));
  return frames;
}

template <class H, FixedString Name>
std::uint64_t field_of(const Seen& seen) {
  const auto header = seen.stack.get<H>();
  return header ? header->template get<Name>() : ~std::uint64_t{0};
}

template <class H, FixedString Name>
void each_has(Bench& bench, const std::deque<Seen>& frames, std::uint64_t expected) {
  for (const Seen& seen : frames) {
    const std::uint64_t found = field_of<H, Name>(seen);
    bench.require(found == expected, fmt::format("{}.{} {:#x}", H::name, Name.view(), expected),
                  fmt::format("{:#x} in {}", found, seen.text()));
  }
}

// IPv4 without options. CA17-3
void no_options(Bench& bench) {
  bench.environment().fix(Parameter::network, "the rule is about IPv4 headers");
  each_has<Ipv4, "header_length">(bench, some_frames(bench), 5);
}

// The traffic class's upper six bits are the DSCP. CA17-4, CA17-13
void dscp_of_ipv4(Bench& bench) {
  bench.environment().fix(Parameter::network, "the rule is about IPv4 headers");
  each_has<Ipv4, "tos.dscp">(bench, some_frames(bench, {.traffic_class = 46 << 2}), 46);
}
void dscp_of_ipv6(Bench& bench) {
  each_has<Ipv6, "traffic_class.dscp">(bench, some_frames(bench, {.traffic_class = 46 << 2, .over = Over::ipv6}), 46);
}

// Without congestion management, ECN is 00 regardless of the low bits of the traffic class. CA17-5, CA17-14
void ecn_is_clear(Bench& bench, Over over, std::uint64_t (*ecn_of)(const Seen&)) {
  const bool known = bench.congestion_management(false);
  for (const Seen& seen : some_frames(bench, {.traffic_class = 2, .over = over})) {
    const std::uint64_t ecn = ecn_of(seen);
    bench.require(ecn == 0, "ECN 00",
                  fmt::format("ECN {} in {}; {}", ecn, seen.text(),
                              known ? "the device is known to have no congestion management"
                                    : "it is unknown whether the device has congestion management"),
                  known ? Verdict::fail : Verdict::inconclusive);
  }
}
void ecn_of_ipv4(Bench& bench) { ecn_is_clear(bench, Over::ipv4, field_of<Ipv4, "tos.ecn">); }
void ecn_of_ipv6(Bench& bench) { ecn_is_clear(bench, Over::ipv6, field_of<Ipv6, "traffic_class.ecn">); }
// The mark "congestion experienced" is reserved for the network. RFC 3168, 5
void never_marked(Bench& bench) {
  bench.environment().fix(Parameter::network, "the rule is about IPv4 headers");
  for (const Seen& seen : some_frames(bench, {.traffic_class = 3}))
    bench.require(field_of<Ipv4, "tos.ecn">(seen) != 3, "an ECN field other than 11", "11 in " + seen.text());
}

// IP and UDP lengths include all bytes up to the end of the ICRC. CA17-6, CA17-15, CA17-21
constexpr std::size_t ethernet_bytes = 14, ipv4_bytes = 20;
/// UDP, BTH, AETH, payload with pad, and ICRC of the ACK, and of the READ responses with 5, 256 and 1 bytes.
constexpr std::uint64_t udp_lengths[] = {8 + 12 + 4 + 4, 8 + 12 + 4 + 8 + 4, 8 + 12 + 4 + 256 + 4, 8 + 12 + 4 + 4 + 4};
void lengths_are(Bench& bench, Over over, std::uint64_t (*length)(const Seen&), std::uint64_t more_than_udp) {
  const std::deque<Seen> frames = some_frames(bench, {.over = over});
  for (std::size_t i = 0; i < std::size(udp_lengths); ++i) {
    const std::uint64_t found = length(frames[i]), expected = udp_lengths[i] + more_than_udp;
    bench.require(found == expected, fmt::format("length {}", expected),
                  fmt::format("{} in {}", found, frames[i].text()));
  }
}
void total_length(Bench& bench) { lengths_are(bench, Over::ipv4, field_of<Ipv4, "total_length">, ipv4_bytes); }
void payload_length(Bench& bench) { lengths_are(bench, Over::ipv6, field_of<Ipv6, "payload_length">, 0); }
void udp_length_over_ipv4(Bench& bench) { lengths_are(bench, Over::ipv4, field_of<Udp, "length">, 0); }
void udp_length_over_ipv6(Bench& bench) { lengths_are(bench, Over::ipv6, field_of<Udp, "length">, 0); }

// DF is set, and the packet is not a fragment. CA17-7, CA17-8
void never_a_fragment(Bench& bench) {
  bench.environment().fix(Parameter::network, "the rule is about IPv4 headers");
  const std::deque<Seen> frames = some_frames(bench);
  each_has<Ipv4, "df">(bench, frames, 1);
  each_has<Ipv4, "mf">(bench, frames, 0);
  each_has<Ipv4, "fragment_offset">(bench, frames, 0);
}

// TTL and Hop Limit are those of the address vector. CA17-9, CA17-17. A system may configure another value than
// requested: Linux uses the hop limit of the route. Then the device's packets prove nothing.
ConnectOptions with_hop_limit(Bench& bench, ConnectOptions options) {
  const auto held = bench.take(bench.connect(options).qp.query(), "query the QP");
  const int found = held.value("/ah_attr/grh/hop_limit"_json_pointer, -1);
  if (found != options.hop_limit)
    end_case(Verdict::inconclusive,
             fmt::format("requested hop limit {}, but the system configured {}", options.hop_limit, found));
  return options;
}
void ttl_is(Bench& bench, std::uint8_t limit) {
  bench.environment().fix(Parameter::network, "the rule is about IPv4 headers");
  each_has<Ipv4, "ttl">(bench, some_frames(bench, with_hop_limit(bench, {.hop_limit = limit})), limit);
}
void ttl(Bench& bench) { ttl_is(bench, 33); }
void ttl_1(Bench& bench) { ttl_is(bench, 1); }
void ttl_255(Bench& bench) { ttl_is(bench, 255); }
void hop_limit(Bench& bench) {
  each_has<Ipv6, "hop_limit">(bench, some_frames(bench, with_hop_limit(bench, {.hop_limit = 33, .over = Over::ipv6})),
                              33);
}

// The source is the address of the selected GID, the destination that of the peer. CA17-11, -12, -18, -19
void addresses_of_ipv4(Bench& bench, Over over) {
  bench.environment().fix(Parameter::network, "the rule is about IPv4 headers");
  const Path path = bench.way(over).path;
  const auto number = [](const std::array<std::uint8_t, 16>& gid) { return load_be<4>(gid.data() + 12); };
  const std::deque<Seen> frames = some_frames(bench, {.over = over});
  each_has<Ipv4, "src">(bench, frames, number(path.device_address));
  each_has<Ipv4, "dst">(bench, frames, number(path.tester_address));
}
void ipv4_addresses(Bench& bench) { addresses_of_ipv4(bench, Over::ipv4); }
void vlan_addresses(Bench& bench) { addresses_of_ipv4(bench, Over::vlan); }
void ipv6_addresses(Bench& bench) {
  const Path path = bench.way(Over::ipv6).path;
  constexpr std::size_t source = ethernet_bytes + 8, destination = source + 16;
  for (const Seen& seen : some_frames(bench, {.over = Over::ipv6})) {
    bench.require(std::equal(path.device_address.begin(), path.device_address.end(), seen.bytes.begin() + source),
                  "the selected GID as source address", "another one in " + seen.text());
    bench.require(std::equal(path.tester_address.begin(), path.tester_address.end(), seen.bytes.begin() + destination),
                  "the peer's GID as destination address", "another one in " + seen.text());
  }
}

// All packets of a QP have the same UDP source port. A17.3.2.1
void one_source_port(Bench& bench) {
  Connected& qp = bench.rc({.mtu = small_packets});
  std::set<std::uint64_t> ports;
  for (int i = 0; i < 8; ++i) bench >> qp.write_only(psn(i), qp.at(0, 0, pattern_bytes(8)));
  bench >> qp.read(psn(+8), qp.at(0, 4 * qp.mtu));
  while (const auto seen = bench.next(bench.patience().silence)) ports.insert(field_of<Udp, "src_port">(*seen));
  bench.require(ports.size() == 1, "one UDP source port", fmt::format("{}: {}", ports.size(), fmt::join(ports, ", ")));
}

// The ICRC is computed according to 7.8.1 and CA17-22. A unit test checks the computation with the specification's
// sample packet.
void icrc_holds(Bench& bench, Over over) {
  for (const Seen& seen : some_frames(bench, {.over = over})) {
    const CrcCheck check = check_icrc(seen.stack);
    bench.require(check.status == CrcCheck::Status::good, fmt::format("ICRC {:#010x}", check.computed),
                  fmt::format("{:#010x} in {}", check.value, seen.text()));
  }
}
void icrc_of_ipv4(Bench& bench) { icrc_holds(bench, Over::ipv4); }
void icrc_of_ipv6(Bench& bench) { icrc_holds(bench, Over::ipv6); }

// The priority in the VLAN tag is the service level. A17.4.2
void priority(Bench& bench, std::uint8_t level) {
  each_has<Vlan, "priority">(bench, some_frames(bench, {.service_level = level, .over = Over::vlan}), level);
}
void priority_0(Bench& bench) { priority(bench, 0); }
void priority_5(Bench& bench) { priority(bench, 5); }
void priority_7(Bench& bench) { priority(bench, 7); }

// RoCEv2 over both versions of IP. CA17-1
void transfer_over_ipv4(Bench& bench) { static_cast<void>(some_frames(bench)); }
void transfer_over_ipv6(Bench& bench) { static_cast<void>(some_frames(bench, {.over = Over::ipv6})); }

// A packet uses RoCEv1, or RoCEv2 over the IP version, according to the GID. CA17-40
void version_of_ipv4(Bench& bench) {
  bench.environment().fix(Parameter::network, "the rule is about IPv4 headers");
  each_has<Ethernet, "type">(bench, some_frames(bench), ethertype::ipv4);
}
void version_of_ipv6(Bench& bench) {
  each_has<Ethernet, "type">(bench, some_frames(bench, {.over = Over::ipv6}), ethertype::ipv6);
}
void version_of_roce_v1(Bench& bench) {
  each_has<Ethernet, "type">(bench, some_frames(bench, {.over = Over::roce_v1}), ethertype::roce_v1);
}

}  // namespace

std::span<const Case> all() {
  static constexpr Case list[] = {
      {.rule = "roce.sender.ipv4.no-options", .run = no_options},
      {.rule = "roce.sender.ip.dscp-as-asked", .variant = "IPv4", .run = dscp_of_ipv4},
      {.rule = "roce.sender.ip.dscp-as-asked", .variant = "IPv6", .run = dscp_of_ipv6},
      {.rule = "roce.sender.ip.ecn-clear-without-management",
       .variant = "IPv4",
       .run = ecn_of_ipv4,
       .possible_problems =
           "a device with congestion management may set ECT; verbs do not report it, so use --congestion-management"},
      {.rule = "roce.sender.ip.ecn-clear-without-management",
       .variant = "IPv6",
       .run = ecn_of_ipv6,
       .possible_problems =
           "a device with congestion management may set ECT; verbs do not report it, so use --congestion-management"},
      {.rule = "roce.sender.ip.ecn-never-marked", .run = never_marked},
      {.rule = "roce.sender.ipv4.total-length", .run = total_length},
      {.rule = "roce.sender.ipv4.never-a-fragment", .run = never_a_fragment},
      {.rule = "roce.sender.ip.hop-limit-as-asked", .variant = "IPv4", .run = ttl},
      {.rule = "roce.sender.ip.hop-limit-as-asked", .variant = "IPv4, 1", .run = ttl_1},
      {.rule = "roce.sender.ip.hop-limit-as-asked", .variant = "IPv4, 255", .run = ttl_255},
      {.rule = "roce.sender.ip.hop-limit-as-asked", .variant = "IPv6", .run = hop_limit},
      {.rule = "roce.sender.ip.addresses-from-gids", .variant = "IPv4", .run = ipv4_addresses},
      {.rule = "roce.sender.ip.addresses-from-gids", .variant = "IPv6", .run = ipv6_addresses},
      {.rule = "roce.sender.ip.addresses-from-gids", .variant = "VLAN", .run = vlan_addresses},
      {.rule = "roce.sender.ipv6.payload-length", .run = payload_length},
      {.rule = "roce.sender.udp.source-port-constant", .run = one_source_port},
      {.rule = "roce.sender.udp.length", .variant = "IPv4", .run = udp_length_over_ipv4},
      {.rule = "roce.sender.udp.length", .variant = "IPv6", .run = udp_length_over_ipv6},
      {.rule = "roce.sender.icrc.over-ipv4", .run = icrc_of_ipv4},
      {.rule = "roce.sender.icrc.over-ipv6", .run = icrc_of_ipv6},
      {.rule = "roce.sender.vlan.priority-is-service-level", .variant = "0", .run = priority_0},
      {.rule = "roce.sender.vlan.priority-is-service-level", .variant = "5", .run = priority_5},
      {.rule = "roce.sender.vlan.priority-is-service-level", .variant = "7", .run = priority_7},
      {.rule = "roce.endpoint.ip.both-versions", .variant = "IPv4", .run = transfer_over_ipv4},
      {.rule = "roce.endpoint.ip.both-versions", .variant = "IPv6", .run = transfer_over_ipv6},
      {.rule = "roce.sender.version.as-gid-type", .variant = "IPv4", .run = version_of_ipv4},
      {.rule = "roce.sender.version.as-gid-type", .variant = "IPv6", .run = version_of_ipv6},
      {.rule = "roce.sender.version.as-gid-type", .variant = "RoCEv1", .run = version_of_roce_v1},
  };
  return list;
}

}  // namespace rdmawire::conformance::headers_ip_cases
