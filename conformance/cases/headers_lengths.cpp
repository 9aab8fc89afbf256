/// Packets that the receiver must drop because of their headers around the BTH or their lengths: IBTA vol 1, CA17-24,
/// CA17-27, A17.3.4.

#include <fmt/format.h>

#include <algorithm>

#include "conformance/cases/files.hpp"
#include "dissectors/protocol/ethernet.hpp"
#include "dissectors/protocol/ip.hpp"
#include "dissectors/protocol/transport.hpp"

namespace rdmawire::conformance::headers_lengths_cases {
namespace {

constexpr std::size_t ethernet_bytes = 14, ipv4_bytes = 20, udp_bytes = 8, bth_bytes = 12, icrc_bytes = 4;

// One flipped bit in the ICRC or in the covered bytes: no response. CA17-24
void flipped(Bench& bench, std::size_t from_end, std::uint8_t bit) {
  Connected& qp = bench.rc({.receives = 1});
  qp.drops(qp.send_only(psn(+0)).damaged([=](std::vector<std::uint8_t>& b) { b[b.size() - from_end] ^= bit; },
                                         "with one bit flipped"));
}
void last_bit_of_the_icrc(Bench& bench) { flipped(bench, 1, 1); }
void first_bit_of_the_icrc(Bench& bench) { flipped(bench, icrc_bytes, 0x80); }
void bit_of_the_payload(Bench& bench) { flipped(bench, icrc_bytes + 1, 1); }
void no_icrc(Bench& bench) {
  Connected& qp = bench.rc({.receives = 1});
  qp.drops(qp.send_only(psn(+0)).changed([](Frame& f) { f.with_icrc = false; }, "without an ICRC"));
}
// The packet is counted if the device has a counter for it.
void bad_icrc_counted(Bench& bench) {
  const auto count = [&] {
    return bench.counter({"rx_icrc_encapsulated", "icrc_error", "rx_icrc_errors", "icrc_errors"});
  };
  const auto before = count();
  if (!before) end_case(Verdict::may, "the device has no counter of wrong ICRCs");
  flipped(bench, 1, 1);
  const std::uint64_t after = count().value_or(0);
  bench.require(after == *before + 1, "the counter of wrong ICRCs one higher", fmt::format("{} more", after - *before));
}

// A packet that permits fragmentation. CA17-7
void may_fragment(Bench& bench) {
  bench.environment().fix(Parameter::network, "the rule is about IPv4 headers");
  Connected& qp = bench.rc({.receives = 1});
  qp.drops(qp.send_only(psn(+0)).with<Ipv4, "df">(0, "with DF 0"));
}

// A packet with options, or a fragment. CA17-3, CA17-8
void with_options(Bench& bench) {
  bench.environment().fix(Parameter::network, "the rule is about IPv4 headers");
  Connected& qp = bench.rc({.receives = 1});
  qp.drops(qp.send_only(psn(+0)).changed(
      [](Frame& frame) {
        constexpr std::uint8_t no_operations[] = {1, 1, 1, 1};
        frame.find(info<Ipv4>)->set_tail(no_operations);
      },
      "with four IP options of no operation"));
}
void more_fragments(Bench& bench) {
  bench.environment().fix(Parameter::network, "the rule is about IPv4 headers");
  Connected& qp = bench.rc({.receives = 1});
  qp.drops(qp.send_only(psn(+0)).with<Ipv4, "df">(0, "").with<Ipv4, "mf">(1, "with MF 1"));
}
void more_fragments_and_df(Bench& bench) {
  bench.environment().fix(Parameter::network, "the rule is about IPv4 headers");
  Connected& qp = bench.rc({.receives = 1});
  qp.drops(qp.send_only(psn(+0)).with<Ipv4, "mf">(1, "with DF 1 and MF 1"));
}
void fragment_offset(Bench& bench) {
  bench.environment().fix(Parameter::network, "the rule is about IPv4 headers");
  Connected& qp = bench.rc({.receives = 1});
  qp.drops(qp.send_only(psn(+0)).with<Ipv4, "fragment_offset">(1, "with fragment offset 1"));
}

// The IP version does not match the EtherType. CA17-27
void version_6_as_ipv4(Bench& bench) {
  bench.environment().fix(Parameter::network, "the rule is about IPv4 headers");
  Connected& qp = bench.rc({.receives = 1});
  qp.drops(qp.send_only(psn(+0)).with<Ipv4, "version">(6, "with IP version 6"));
}
void ipv4_as_ipv6(Bench& bench) {
  bench.environment().fix(Parameter::network, "the rule is about IPv4 headers");
  Connected& qp = bench.rc({.receives = 1});
  qp.drops(qp.send_only(psn(+0)).with<Ethernet, "type">(ethertype::ipv6, "under the EtherType of IPv6"));
}
void ipv6_as_ipv4(Bench& bench) {
  Connected& qp = bench.rc({.receives = 1, .over = Over::ipv6});
  qp.drops(qp.send_only(psn(+0)).with<Ethernet, "type">(ethertype::ipv4, "under the EtherType of IPv4"));
}

// Lengths that contradict the frame or each other. All other fields and the ICRC are valid. CA17-6, CA17-21
std::uint32_t udp_length(const Stimulus& s) {
  return static_cast<std::uint32_t>(s.bytes().size() - ethernet_bytes - ipv4_bytes);
}
void total_length_off(Bench& bench, int by) {
  bench.environment().fix(Parameter::network, "the rule is about IPv4 headers");
  Connected& qp = bench.rc({.receives = 1});
  const Stimulus good = qp.send_only(psn(+0));
  qp.drops(good.with<Ipv4, "total_length">(ipv4_bytes + udp_length(good) + static_cast<std::uint64_t>(by),
                                           fmt::format("with a Total Length that is {:+} bytes off", by)));
}
void total_length_4_more(Bench& bench) { total_length_off(bench, +4); }
void total_length_4_less(Bench& bench) { total_length_off(bench, -4); }
void udp_length_off(Bench& bench, int by) {
  bench.environment().fix(Parameter::network, "the steps compute the length after an untagged IPv4 header");
  Connected& qp = bench.rc({.receives = 1});
  const Stimulus good = qp.send_only(psn(+0));
  qp.drops(good.with<Udp, "length">(udp_length(good) + static_cast<std::uint64_t>(by),
                                    fmt::format("with a UDP Length that is {:+} bytes off", by)));
}
void udp_length_4_more(Bench& bench) { udp_length_off(bench, +4); }
void udp_length_4_less(Bench& bench) { udp_length_off(bench, -4); }
void udp_length_0(Bench& bench) {
  Connected& qp = bench.rc({.receives = 1});
  qp.drops(qp.send_only(psn(+0)).with<Udp, "length">(0, "with UDP Length 0"));
}
// The IP datagram has trailing bytes after the ICRC: UDP and IP end at different bytes.
void bytes_after_the_icrc(Bench& bench) {
  bench.environment().fix(Parameter::network, "the rule is about IPv4 headers");
  Connected& qp = bench.rc({.receives = 1});
  const Stimulus good = qp.send_only(psn(+0));
  qp.drops(
      good.with<Ipv4, "total_length">(ipv4_bytes + udp_length(good) + 4, "")
          .changed([](Frame& frame) { frame.trailer.assign(4, 0); }, "with 4 bytes between the ICRC and IP's end"));
}

// Packets shorter than their opcode's headers, pad and ICRC: no response, and the device continues to work. The frames
// are complete, with valid lengths and ICRC. Only headers after the BTH are missing.
void runt(Bench& bench, std::uint8_t opcode, std::uint32_t bytes_kept) {
  Connected& qp = bench.rc({.receives = 1});
  qp.drops(qp.request(Operation::send, Position::only, psn(+0), {.payload = pattern_bytes(bytes_kept)})
               .with<Bth, "opcode">(opcode,
                                    fmt::format("with opcode {:#04x} and {} bytes after the BTH", opcode, bytes_kept)));
}
void write_without_reth(Bench& bench) { runt(bench, 0x0a, 0); }
void write_with_a_truncated_reth(Bench& bench) { runt(bench, 0x0a, 8); }
void read_with_a_truncated_reth(Bench& bench) { runt(bench, 0x0c, 12); }
void atomic_with_a_reth(Bench& bench) { runt(bench, 0x14, 16); }
void immediate_missing(Bench& bench) { runt(bench, 0x05, 0); }
void pad_without_payload(Bench& bench) {
  Connected& qp = bench.rc({.receives = 1});
  qp.drops(qp.send_only(psn(+0), "").with<Bth, "pad">(3, "with pad count 3 and no payload"));
}
// Truncated in the UDP header, in the BTH, or before the ICRC. The IP length is that of the remaining bytes.
void truncated_to(Bench& bench, std::size_t bytes_of_udp) {
  bench.environment().fix(Parameter::network, "the rule is about IPv4 headers");
  Connected& qp = bench.rc({.receives = 1});
  const std::size_t length = ipv4_bytes + bytes_of_udp;
  qp.drops(qp.send_only(psn(+0))
               .with<Ipv4, "total_length">(length, "")
               .with<Udp, "length">(bytes_of_udp, "")
               .damaged([=](std::vector<std::uint8_t>& b) { b.resize(ethernet_bytes + length); },
                        fmt::format("truncated to {} bytes of UDP", bytes_of_udp)));
}
void truncated_in_udp(Bench& bench) { truncated_to(bench, 4); }
void truncated_after_udp(Bench& bench) { truncated_to(bench, udp_bytes); }
void truncated_in_the_bth(Bench& bench) { truncated_to(bench, udp_bytes + 4); }
void truncated_after_the_bth(Bench& bench) { truncated_to(bench, udp_bytes + bth_bytes); }

}  // namespace

std::span<const Case> all() {
  static constexpr Case list[] = {
      {.rule = "roce.receiver.icrc.bad-dropped", .variant = "last bit", .run = last_bit_of_the_icrc},
      {.rule = "roce.receiver.icrc.bad-dropped", .variant = "first bit", .run = first_bit_of_the_icrc},
      {.rule = "roce.receiver.icrc.bad-dropped", .variant = "payload", .run = bit_of_the_payload},
      {.rule = "roce.receiver.icrc.bad-dropped", .variant = "no ICRC", .run = no_icrc},
      {.rule = "roce.receiver.icrc.bad-dropped", .variant = "counted", .run = bad_icrc_counted},
      {.rule = "roce.receiver.ipv4.may-fragment-dropped", .run = may_fragment},
      {.rule = "roce.receiver.ipv4.options-or-fragment-dropped", .variant = "options", .run = with_options},
      {.rule = "roce.receiver.ipv4.options-or-fragment-dropped", .variant = "MF", .run = more_fragments},
      {.rule = "roce.receiver.ipv4.options-or-fragment-dropped", .variant = "DF and MF", .run = more_fragments_and_df},
      {.rule = "roce.receiver.ipv4.options-or-fragment-dropped", .variant = "offset", .run = fragment_offset},
      {.rule = "roce.receiver.ip.version-against-ethertype-dropped", .variant = "version 6", .run = version_6_as_ipv4},
      {.rule = "roce.receiver.ip.version-against-ethertype-dropped", .variant = "IPv4 as IPv6", .run = ipv4_as_ipv6},
      {.rule = "roce.receiver.ip.version-against-ethertype-dropped", .variant = "IPv6 as IPv4", .run = ipv6_as_ipv4},
      {.rule = "roce.receiver.length.inconsistent-dropped", .variant = "IP, more", .run = total_length_4_more},
      {.rule = "roce.receiver.length.inconsistent-dropped", .variant = "IP, less", .run = total_length_4_less},
      {.rule = "roce.receiver.length.inconsistent-dropped", .variant = "UDP, more", .run = udp_length_4_more},
      {.rule = "roce.receiver.length.inconsistent-dropped", .variant = "UDP, less", .run = udp_length_4_less},
      {.rule = "roce.receiver.length.inconsistent-dropped", .variant = "UDP, 0", .run = udp_length_0},
      {.rule = "roce.receiver.length.inconsistent-dropped",
       .variant = "bytes after the ICRC",
       .run = bytes_after_the_icrc},
      {.rule = "roce.receiver.length.runt-dropped", .variant = "WRITE without RETH", .run = write_without_reth},
      {.rule = "roce.receiver.length.runt-dropped",
       .variant = "WRITE, truncated RETH",
       .run = write_with_a_truncated_reth},
      {.rule = "roce.receiver.length.runt-dropped",
       .variant = "READ, part of a RETH",
       .run = read_with_a_truncated_reth},
      {.rule = "roce.receiver.length.runt-dropped", .variant = "atomic", .run = atomic_with_a_reth},
      {.rule = "roce.receiver.length.runt-dropped", .variant = "no ImmDt", .run = immediate_missing},
      {.rule = "roce.receiver.length.runt-dropped", .variant = "pad without payload", .run = pad_without_payload},
      {.rule = "roce.receiver.length.runt-dropped", .variant = "truncated in UDP", .run = truncated_in_udp},
      {.rule = "roce.receiver.length.runt-dropped", .variant = "truncated after UDP", .run = truncated_after_udp},
      {.rule = "roce.receiver.length.runt-dropped", .variant = "truncated in the BTH", .run = truncated_in_the_bth},
      {.rule = "roce.receiver.length.runt-dropped",
       .variant = "truncated after the BTH",
       .run = truncated_after_the_bth},
  };
  return list;
}

}  // namespace rdmawire::conformance::headers_lengths_cases
