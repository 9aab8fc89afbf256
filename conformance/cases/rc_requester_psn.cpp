/// PSNs and segmentation of the requester: IBTA vol 1, 9.7.2 (PSNs of requests, clause number not verified),
/// 9.4 (lengths), 9.5 (order), 9.7.7 and C9-94 (the longest message).

#include <cerrno>

#include "conformance/cases/files.hpp"
#include "conformance/cases/path_mtu.hpp"

namespace rdmawire::conformance::rc_requester_psn_cases {
namespace {

constexpr std::uint8_t patient = 20;  ///< a timeout of 4.3 s, longer than the case

bool asks(const Seen& seen) { return seen.stack.get<Bth>()->get<"ack_request">() != 0; }

// The first request has the negotiated PSN, and each following packet the next PSN.
void one_more_for_each_message(Bench& bench) {
  Connected& qp = bench.rc({.timeout = patient});
  for (std::uint64_t i = 0; i < 3; ++i) qp.device_sends(i);
  bench << a_send(psn(+0)) << a_send(psn(+1)) << a_send(psn(+2));
  bench >> qp.ack(psn(+2), 3);
  for (std::uint64_t i = 0; i < 3; ++i) qp.completes(i);
}

void one_more_for_each_packet(Bench& bench) {
  Connected& qp = bench.rc({.mtu = small_packets, .timeout = patient});
  qp.device_writes(0, {.length = 2 * qp.mtu + 88});
  qp.device_sends(1);
  bench << a_write(psn(+0), Position::first) << a_write(psn(+1), Position::middle) << a_write(psn(+2), Position::last)
        << a_send(psn(+3));
}

// PSNs count modulo 2^24, within a message and between messages.
void psns_wrap(Bench& bench) {
  Connected& qp = bench.rc({.mtu = small_packets, .timeout = patient, .device_psn = 0xfffffe});
  qp.device_sends(0, {.length = 2 * qp.mtu + 188});
  qp.device_sends(1);
  bench << a_send(psn(+0), Position::first) << a_send(psn(+1), Position::middle) << a_send(psn(+2), Position::last)
        << a_send(psn(+3));
  bench >> qp.ack(psn(+3), 2);
  qp.completes(0);
  qp.completes(1);
}

void a_message_without_bytes_is_one_packet(Bench& bench) {
  Connected& qp = bench.rc({.timeout = patient});
  qp.device_sends(0, {.length = 0});
  qp.device_writes(1, {.length = 0});
  qp.device_sends(2);
  bench << a_send(psn(+0)).carrying("") << a_write(psn(+1)).carrying("") << a_send(psn(+2));
}

// A READ covers as many PSNs as its response has packets.
void a_read_takes_the_psns_of_its_response(Bench& bench) {
  bench.environment().fix(Parameter::own_reads, "the case has three READs outstanding");
  Connected& qp = bench.rc({.mtu = small_packets, .timeout = patient});
  qp.device_reads(0, {.length = qp.mtu});
  qp.device_reads(1, {.length = qp.mtu + 1});
  qp.device_reads(2, {.length = 3 * qp.mtu});
  qp.device_sends(3);
  bench << a_read(psn(+0), qp.mtu, tester_memory) << a_read(psn(+1), qp.mtu + 1, tester_memory)
        << a_read(psn(+3), 3 * qp.mtu, tester_memory) << a_send(psn(+6));
}

void a_read_of_nothing_takes_one(Bench& bench) {
  Connected& qp = bench.rc({.timeout = patient});
  qp.device_reads(0, {.length = 0});
  qp.device_sends(1);
  bench << a_read(psn(+0), 0, tester_memory) << a_send(psn(+1));
}

// The last packet of a message has AckReq set.
void an_only_packet_has_ack_request(Bench& bench) {
  Connected& qp = bench.rc({.timeout = patient});
  qp.device_sends(0);
  bench << a_send(psn(+0)).where("AckReq", asks);
}

void the_last_packet_has_ack_request(Bench& bench) {
  Connected& qp = bench.rc({.mtu = small_packets, .timeout = patient});
  qp.device_writes(0, {.length = 2 * qp.mtu + 88});
  bench << a_write(psn(+0), Position::first) << a_write(psn(+1), Position::middle)
        << a_write(psn(+2), Position::last).where("AckReq", asks);
}

// Messages are sent in posting order, without interleaving.
void messages_leave_as_posted(Bench& bench) {
  Connected& qp = bench.rc({.mtu = small_packets, .timeout = patient});
  qp.device_writes(0, {.length = 2 * qp.mtu + 88});
  qp.device_sends(1, {.length = qp.mtu + 144});
  qp.device_adds(2);
  qp.device_writes(3);
  bench << a_write(psn(+0), Position::first) << a_write(psn(+1), Position::middle) << a_write(psn(+2), Position::last);
  bench << a_send(psn(+3), Position::first) << a_send(psn(+4), Position::last) << a_fetch_add(psn(+5))
        << a_write(psn(+6));
}

constexpr std::uint32_t pieces = 32;

/// Repeated pieces of one region with a total length of 2^31 plus `more`.
std::vector<peer::Piece> longest(const Connected& qp, std::uint32_t more) {
  constexpr std::uint32_t each = (std::uint32_t{1} << 31) / pieces;
  std::vector<peer::Piece> list(pieces, qp.piece(0, each));
  list.front() = qp.piece(0, each + more);
  return list;
}
constexpr std::uint64_t long_region = (std::uint64_t{1} << 26) + 4096;

// C9-94: a message has up to 2^31 bytes. The case checks the RETH and does not receive the whole message.
void the_longest_message_is_sent(Bench& bench) {
  Connected& qp = bench.rc({.region_bytes = long_region, .timeout = patient, .send_sge = 32});
  qp.post({.opcode = "write", .wr_id = 0, .sges = longest(qp, 0), .remote_addr = tester_memory, .rkey = tester_rkey});
  const auto seen = bench.next();
  if (!seen) {
    const auto completions = bench.take(qp.cq.poll(1, bench.silence_time()), "poll for a completion");
    bench.require(false, "a WRITE of 2^31 bytes", completions.empty() ? "nothing" : completions.front().status);
  }
  const bool begins = seen->op->known && seen->op->operation == Operation::rdma_write &&
                      seen->op->position == Position::first && seen->at == psn(+0);
  const auto reth = seen->stack.get<Reth>();
  bench.require(begins && reth && reth->get<"length">() == std::uint64_t{1} << 31, "a WRITE of 2^31 bytes",
                seen->text());
}

void a_longer_message_is_not(Bench& bench) {
  Connected& qp = bench.rc({.region_bytes = long_region, .timeout = patient, .send_sge = pieces});
  // The same request with a permitted length is sent, so the length is the reason for a refusal.
  qp.post({.opcode = "write",
           .wr_id = 1,
           .sges = std::vector<peer::Piece>(pieces, qp.piece(0, 8)),
           .remote_addr = tester_memory,
           .rkey = tester_rkey});
  bench << rdmawire::conformance::a_write(psn(+0));
  bench >> qp.ack(psn(+0), 1);
  qp.completes(1);
  const auto posted = qp.qp.post_send(
      {{.opcode = "write", .wr_id = 0, .sges = longest(qp, 1), .remote_addr = tester_memory, .rkey = tester_rkey}});
  bench << silence();
  if (posted)
    qp.completes(0, "loc_len_err");
  else
    bench.is_refused_with(posted, {EINVAL, EMSGSIZE, E2BIG}, "a WRITE of 2^31 + 1 bytes");
}

}  // namespace

std::span<const Case> all() {
  constexpr Role requester = Role::requester;
  static constexpr Case list[] = {
      {.rule = "rc.requester.psn.increments",
       .variant = "messages",
       .role = requester,
       .run = one_more_for_each_message},
      {.rule = "rc.requester.psn.increments", .variant = "packets", .role = requester, .run = one_more_for_each_packet},
      {.rule = "rc.requester.psn.increments", .variant = "modulo 2^24", .role = requester, .run = psns_wrap},
      {.rule = "rc.requester.psn.increments",
       .variant = "no bytes",
       .role = requester,
       .run = a_message_without_bytes_is_one_packet},
      {.rule = "rc.requester.psn.read-takes-responses",
       .role = requester,
       .run = a_read_takes_the_psns_of_its_response},
      {.rule = "rc.requester.psn.read-takes-responses",
       .variant = "no bytes",
       .role = requester,
       .run = a_read_of_nothing_takes_one},
      {.rule = "rc.requester.ack-request.on-last",
       .variant = "one packet",
       .role = requester,
       .run = an_only_packet_has_ack_request},
      {.rule = "rc.requester.ack-request.on-last",
       .variant = "three packets",
       .role = requester,
       .run = the_last_packet_has_ack_request},
      {.rule = "rc.requester.order.as-posted", .role = requester, .run = messages_leave_as_posted},
      {.rule = "rc.requester.length.maximum", .variant = "2^31", .role = requester, .run = the_longest_message_is_sent},
      {.rule = "rc.requester.length.maximum", .variant = "2^31 + 1", .role = requester, .run = a_longer_message_is_not},
  };
  return list;
}

}  // namespace rdmawire::conformance::rc_requester_psn_cases
