/// Active tests of rules that also apply to captures: frames that may not be recognized as RoCE, the order of headers,
/// and complete messages of every service. IBTA vol 1, CA17-10, CA17-16, CA17-20, 5.2 with Table 38, 9.7.7.2. The
/// clause numbers of the requester's rules are not verified.

#include <fmt/format.h>

#include "conformance/cases/files.hpp"
#include "dissectors/protocol/decode.hpp"
#include "dissectors/protocol/ethernet.hpp"
#include "dissectors/protocol/ip.hpp"
#include "dissectors/protocol/transport.hpp"

namespace rdmawire::conformance::headers_wire_cases {
namespace {

constexpr std::uint32_t immediate = 0x12345678;

/// Returns whether the datagram is the requested ACK, regardless of its IP and UDP fields, because the device's host
/// may send other datagrams. The BTH is at the offset of RoCEv2.
using Datagram = std::span<const std::uint8_t>;
bool acknowledges(Datagram ip, const Connected& qp) {
  constexpr std::size_t udp_header = 8, bth_bytes = 12;
  constexpr std::uint8_t rc_acknowledge = 0x11;
  const std::size_t at = (ip[0] & 15U) * std::size_t{4} + udp_header;
  if (ip.size() < at + bth_bytes) return false;
  const Datagram bth = ip.subspan(at, bth_bytes);
  return bth[0] == rc_acknowledge && (bth[5] << 16U | bth[6] << 8U | bth[7]) == static_cast<int>(qp.tester_qpn);
}

/// Passes the next frames of the device unparsed. The IP datagram starts at byte 14.
void each_datagram(Bench& bench, const std::function<void(Datagram)>& judge) {
  bench.environment().fix(Parameter::network, "the steps read the bytes after an untagged IPv4 header");
  Connected& qp = bench.rc({.receives = 1});
  bench >> qp.send_only(psn(+0));
  const std::int64_t until = bench.now() + bench.patience().answer;
  bool any = false;
  while (!any || bench.now() < until) {
    const auto received = bench.wire().receive(any ? bench.now() + bench.patience().silence : until);
    if (!received || !*received) break;
    const auto& bytes = (*received)->frame;
    if (!(*received)->own) bench.inspect(decode(bytes), (*received)->time);
    constexpr std::size_t ethernet = 14, shortest = ethernet + 20;
    if (bytes.size() < shortest || bytes[12] != 0x08 || bytes[13] != 0x00) continue;
    const Datagram datagram(bytes.data() + ethernet, bytes.size() - ethernet);
    if (!acknowledges(datagram, qp)) continue;
    bench.record(Step::Kind::received, "the device's ACK, over IPv4", bytes);
    any = true;
    judge(datagram);
  }
  bench.require(any, "a response over IPv4", "none");
}

// CA17-10
void protocol_is_udp(Bench& bench) {
  each_datagram(bench, [&](Datagram ip) { bench.require(ip[9] == 17, "IP protocol 17", fmt::format("{}", ip[9])); });
}
// CA17-20. The destination port is in bytes 2 and 3 of the UDP header.
void port_is_4791(Bench& bench) {
  each_datagram(bench, [&](Datagram ip) {
    const std::size_t udp = (ip[0] & 15U) * std::size_t{4};
    const unsigned port = ip.size() < udp + 4 ? 0U : ip[udp + 2] << 8U | ip[udp + 3];
    bench.require(port == 4791, "UDP port 4791", fmt::format("{}", port));
  });
}
// The range of Linux and some adapters. The specification permits any port.
void source_port_is_dynamic(Bench& bench) {
  each_datagram(bench, [&](Datagram ip) {
    const std::size_t udp = (ip[0] & 15U) * std::size_t{4};
    const unsigned port = ip.size() < udp + 4 ? 0U : ip[udp] << 8U | ip[udp + 1];
    if (port < 49152) end_case(Verdict::may, fmt::format("the source port is {}, below 49152", port));
  });
}

// Table 38: RETH then ImmDt, and AETH then AtomicAckETH, each with the requested values.
void reth_before_immediate(Bench& bench) {
  Connected& qp = bench.rc();
  qp.post({.opcode = "write_imm",
           .wr_id = 0,
           .sges = {qp.piece(0, 8)},
           .remote_addr = tester_memory,
           .rkey = tester_rkey,
           .imm = immediate});
  bench << a_write(psn(+0)).where("RETH with the address, key and length, then the immediate data", [](const Seen& s) {
    const auto reth = s.stack.get<Reth>();
    const auto data = s.stack.get<ImmDt>();
    return reth && data && reth->get<"va">() == tester_memory && reth->get<"rkey">() == tester_rkey &&
           reth->get<"length">() == 8 && data->get<"data">() == immediate;
  });
}
void aeth_before_atomic(Bench& bench) {
  constexpr std::uint64_t original = 0x0102030405060708;
  Connected& qp = bench.rc();
  qp.fill(0, std::string("\x08\x07\x06\x05\x04\x03\x02\x01", 8));
  bench >> qp.fetch_add(psn(+0), {.va = qp.region.addr(), .rkey = qp.region.rkey(), .swap_or_add = 1});
  bench << atomic_acknowledge(psn(+0), original).msn(1);
}

// 9.7.7.2: credit code 31 indicates that credits are not used, and then all ACKs have it.
void credits_or_none(Bench& bench) {
  constexpr std::uint8_t not_used = 31;
  Connected& qp = bench.rc({.receives = 4});
  bool used = false, unused = false;
  for (int i = 0; i < 8; ++i) {
    bench >> qp.write_only(psn(i), qp.at(0, 0, pattern_bytes(8)));
    const Seen seen = bench.wait(ack(psn(i)));
    (seen.code() == not_used ? unused : used) = true;
  }
  bench.require(!(used && unused), "credits in every ACK, or in none", "both");
}

// A message of three packets: the first two are full, each covers one PSN, and the next message has the following PSN.
void three_packets_then_one(Bench& bench, Connected& qp) {
  qp.device_sends(0, {.length = 700});
  const auto holds = [](std::size_t bytes) {
    return [bytes](const Seen& seen) { return seen.payload.size() == bytes; };
  };
  bench << a_send(psn(+0), Position::first).where("256 bytes", holds(256));
  bench << a_send(psn(+1), Position::middle).where("256 bytes", holds(256));
  bench << a_send(psn(+2), Position::last).where("188 bytes", holds(188));
  qp.device_sends(1);
  bench << a_send(psn(+3));
}
void packets_filled(Bench& bench) { three_packets_then_one(bench, bench.rc({.mtu = 256, .timeout = 20})); }
void psn_of_uc(Bench& bench) { three_packets_then_one(bench, bench.uc({.mtu = 256})); }

// A retransmission has the same payload, immediate data and operands.
void retransmitted_with_immediate(Bench& bench) {
  Connected& qp = bench.rc({.timeout = 20});
  qp.fill(0, pattern_bytes(8));
  qp.post({.opcode = "send_imm", .wr_id = 0, .sges = {qp.piece(0, 8)}, .imm = immediate});
  const Expectation same = a_send(psn(+0)).carrying(pattern_bytes(8)).where("the immediate data", [](const Seen& seen) {
    const auto data = seen.stack.get<ImmDt>();
    return data && data->get<"data">() == immediate;
  });
  bench << same;
  bench >> qp.nak(nak_code::psn_sequence_error, psn(+0), 0);
  bench << same;
}
void retransmitted_an_atomic(Bench& bench) {
  Connected& qp = bench.rc({.timeout = 20});
  qp.device_adds(0);
  const Expectation same = a_fetch_add(psn(+0)).where("an addition of 5 to the same address", [](const Seen& seen) {
    const auto atomic = seen.stack.get<AtomicEth>();
    return atomic && atomic->get<"va">() == tester_memory && atomic->get<"rkey">() == tester_rkey &&
           atomic->get<"swap_add">() == 5;
  });
  bench << same;
  bench >> qp.nak(nak_code::psn_sequence_error, psn(+0), 0);
  bench << same;
}

// UC has no acknowledgements: AckReq is 0, and the request completes when it is sent.
void complete_when_sent(Bench& bench) {
  Connected& qp = bench.uc();
  qp.device_sends(0);
  bench << a_send(psn(+0)).where("AckReq 0",
                                 [](const Seen& seen) { return seen.stack.get<Bth>()->get<"ack_request">() == 0; });
  qp.completes(0);
}
void datagram_has_no_ack_request(Bench& bench) {
  Connected& qp = bench.ud();
  const peer::AddressHandle ah = qp.address_handle_of_tester();
  qp.post({.opcode = "send",
           .wr_id = 0,
           .sges = {qp.piece(0, 8)},
           .ah = &ah,
           .remote_qpn = qp.tester_qpn,
           .remote_qkey = 0x11111111});
  bench << a_send(psn(+0)).where("AckReq 0",
                                 [](const Seen& seen) { return seen.stack.get<Bth>()->get<"ack_request">() == 0; });
}

}  // namespace

std::span<const Case> all() {
  constexpr Role requester = Role::requester;
  static constexpr Case list[] = {
      {.rule = "roce.sender.ip.protocol-is-udp", .run = protocol_is_udp},
      {.rule = "roce.sender.udp.destination-port", .run = port_is_4791},
      {.rule = "roce.sender.udp.source-port-dynamic", .run = source_port_is_dynamic},
      {.rule = "bth.sender.headers.as-opcode-says",
       .variant = "WRITE with immediate",
       .role = requester,
       .run = reth_before_immediate},
      {.rule = "bth.sender.headers.as-opcode-says",
       .variant = "Atomic Acknowledge",
       .needs = Need::atomics,
       .run = aeth_before_atomic},
      {.rule = "rc.responder.credits.encoding", .run = credits_or_none},
      {.rule = "rc.requester.length.packets-filled", .role = requester, .run = packets_filled},
      {.rule = "uc.requester.psn.increments", .role = requester, .needs = Need::uc, .run = psn_of_uc},
      {.rule = "rc.requester.retry.same-operands",
       .variant = "immediate data",
       .role = requester,
       .run = retransmitted_with_immediate},
      {.rule = "rc.requester.retry.same-operands",
       .variant = "atomic",
       .role = requester,
       .needs = Need::atomics,
       .run = retransmitted_an_atomic},
      {.rule = "uc.requester.completion.when-sent", .role = requester, .needs = Need::uc, .run = complete_when_sent},
      {.rule = "ud.sender.ack-request.clear", .role = requester, .needs = Need::ud, .run = datagram_has_no_ack_request},
  };
  return list;
}

}  // namespace rdmawire::conformance::headers_wire_cases
