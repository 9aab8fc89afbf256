/// Requests without a posted receive, and the consumption of receives: IBTA vol 1, 9.7.5.2.8 (RNR NAK), Table 45,
/// C10-87

#include <fmt/format.h>

#include "conformance/cases/files.hpp"
#include "conformance/cases/path_mtu.hpp"

namespace rdmawire::conformance::rc_responder_rnr_cases {
namespace {

constexpr std::uint8_t write_last_with_immediate = 0x09, write_only_with_immediate = 0x0b;

// No receive: RNR NAK with the request's PSN and the QP's timer code. The QP state is unchanged.
void send_finds_none(Bench& bench, std::uint8_t timer) {
  Connected& qp = bench.rc({.min_rnr_timer = timer});
  bench >> qp.send_only(psn(+0));
  bench << rnr_nak(psn(+0), timer).msn(0) << silence();
  qp.is_in("rts");
}
void send_timer_12(Bench& bench) { send_finds_none(bench, 12); }
void send_timer_1(Bench& bench) { send_finds_none(bench, 1); }
void send_timer_31(Bench& bench) { send_finds_none(bench, 31); }
void send_timer_0(Bench& bench) { send_finds_none(bench, 0); }
void first_finds_none(Bench& bench) {
  Connected& qp = bench.rc({.mtu = small_packets});
  bench >> qp.send_first(psn(+0), pattern_bytes(qp.mtu));
  bench << rnr_nak(psn(+0), std::uint8_t{12}) << silence();
}
void write_with_immediate_finds_none(Bench& bench) {
  Connected& qp = bench.rc();
  bench >> qp.request(write_only_with_immediate, psn(+0), qp.at(0, 8, pattern_bytes(8)));
  bench << rnr_nak(psn(+0), std::uint8_t{12});
  qp.is_in("rts");
}

// The request is retransmitted after a receive is posted: executed once.
void then_executed(Bench& bench) {
  Connected& qp = bench.rc();
  bench >> qp.send_only(psn(+0), pattern_bytes(16));
  bench << rnr_nak(psn(+0));
  qp.post_receives(2);
  bench >> qp.send_only(psn(+0), pattern_bytes(16));
  bench << ack(psn(+0)).msn(1);
  qp.completes(0);
  qp.received(0, pattern_bytes(16));
  qp.completes_nothing();
}
void write_then_executed(Bench& bench) {
  Connected& qp = bench.rc();
  bench >> qp.request(write_only_with_immediate, psn(+0), qp.at(0, 8, pattern_bytes(8)));
  bench << rnr_nak(psn(+0));
  qp.post_receives(1);
  bench >> qp.request(write_only_with_immediate, psn(+0), qp.at(0, 8, pattern_bytes(8)));
  bench << ack(psn(+0)).msn(1);
  qp.completes(0);
  qp.holds(0, pattern_bytes(8));
}
// Requests after the rejected one are out of order and are not executed.
void what_came_after_is_dropped(Bench& bench) {
  Connected& qp = bench.rc();
  bench >> qp.send_only(psn(+0), pattern_bytes(16)) >> qp.write_only(psn(+1), qp.at(0, 0, pattern_bytes(8)));
  bench << rnr_nak(psn(+0));
  static_cast<void>(bench.all_until_silence());  // a NAK for the gap may follow
  qp.holds(0, std::string(8, '\0'));
  qp.post_receives(1);
  bench >> qp.send_only(psn(+0), pattern_bytes(16)) >> qp.write_only(psn(+1), qp.at(0, 0, pattern_bytes(8)));
  bench << acknowledged(psn(+1)).msn(2);
}

// None of these consumes a receive: three are posted, and three SENDs use them afterwards. C10-87
void three_receives_left(Bench& bench, Connected& qp, std::int32_t next) {
  for (int i = 0; i < 3; ++i) bench >> qp.send_only(psn(next + i), pattern_bytes(8, static_cast<std::uint8_t>(10 * i)));
  bench << acknowledged(psn(next + 2));
  for (std::uint64_t i = 0; i < 3; ++i) {
    qp.completes(i);
    qp.received(i, pattern_bytes(8, static_cast<std::uint8_t>(10 * i)));
  }
}
void rnr_uses_none(Bench& bench) {
  Connected& qp = bench.rc();
  bench >> qp.send_only(psn(+0));
  bench << rnr_nak(psn(+0));
  qp.post_receives(3);
  three_receives_left(bench, qp, 0);
}
void gap_uses_none(Bench& bench) {
  Connected& qp = bench.rc({.receives = 3});
  bench >> qp.send_only(psn(+1));
  bench << nak_sequence_error(psn(+0));
  three_receives_left(bench, qp, 0);
}
void duplicate_uses_none(Bench& bench) {
  Connected& qp = bench.rc({.receives = 3});
  bench >> qp.write_only(psn(+0), qp.at(0, 0, pattern_bytes(8)));
  bench << ack(psn(+0));
  bench >> qp.send_only(psn(+0)) >> qp.send_only(psn(-5));
  bench << ack(psn(+0)) << ack(psn(+0));
  three_receives_left(bench, qp, 1);
}
void write_uses_none(Bench& bench) {
  Connected& qp = bench.rc({.receives = 3});
  bench >> qp.write_only(psn(+0), qp.at(0, 0, pattern_bytes(8))) >> qp.read(psn(+1), qp.at(0, 8));
  bench << ack(psn(+0)) << read_response(Position::only, psn(+1));
  three_receives_left(bench, qp, 2);
}

// A WRITE with immediate data consumes a receive with its last packet. The completion has the number of written bytes.
void length_is(Bench& bench, const peer::Completion& completion, std::uint32_t expected) {
  bench.require(completion.byte_len == expected, fmt::format("byte_len {}", expected),
                fmt::format("byte_len {}", completion.byte_len));
  bench.require(completion.imm == 0xcafeU, "the immediate data 0xcafe",
                completion.imm ? fmt::format("{:#x}", *completion.imm) : "none");
}
void immediate_with_an_only(Bench& bench) {
  Connected& qp = bench.rc({.receives = 1});
  Operands operands = qp.at(0, 100, pattern_bytes(100));
  operands.immediate = 0xcafe;
  bench >> qp.request(write_only_with_immediate, psn(+0), operands);
  bench << ack(psn(+0)).msn(1);
  length_is(bench, qp.completes(0), 100);
  qp.holds(0, pattern_bytes(100));
}
void immediate_with_a_last(Bench& bench) {
  Connected& qp = bench.rc({.mtu = small_packets, .receives = 1});
  bench >> qp.write_first(psn(+0), qp.at(0, 2 * qp.mtu + 100, pattern_bytes(qp.mtu, 1)));
  bench << ack(psn(+0)).msn(0);
  qp.completes_nothing();
  bench >> qp.write_middle(psn(+1), pattern_bytes(qp.mtu, 2));
  bench >> qp.request(write_last_with_immediate, psn(+2), {.payload = pattern_bytes(100, 3), .immediate = 0xcafe});
  bench << acknowledged(psn(+2)).msn(1);
  length_is(bench, qp.completes(0), 2 * qp.mtu + 100);
  qp.holds(0, pattern_bytes(qp.mtu, 1) + pattern_bytes(qp.mtu, 2) + pattern_bytes(100, 3));
}
void immediate_alone(Bench& bench) {
  Connected& qp = bench.rc({.receives = 1});
  bench >> qp.request(write_only_with_immediate, psn(+0), {.immediate = 0xcafe});
  bench << ack(psn(+0)).msn(1);
  length_is(bench, qp.completes(0), 0);
}

}  // namespace

std::span<const Case> all() {
  static constexpr Case list[] = {
      {.rule = "rc.responder.rnr.no-receive", .variant = "SEND", .run = send_timer_12},
      {.rule = "rc.responder.rnr.no-receive", .variant = "shortest timer", .run = send_timer_1},
      {.rule = "rc.responder.rnr.no-receive", .variant = "timer code 31", .run = send_timer_31},
      {.rule = "rc.responder.rnr.no-receive", .variant = "longest timer", .run = send_timer_0},
      {.rule = "rc.responder.rnr.no-receive", .variant = "SEND First", .run = first_finds_none},
      {.rule = "rc.responder.rnr.no-receive",
       .variant = "WRITE with immediate",
       .run = write_with_immediate_finds_none},
      {.rule = "rc.responder.rnr.then-executed-once", .variant = "SEND", .run = then_executed},
      {.rule = "rc.responder.rnr.then-executed-once", .variant = "WRITE with immediate", .run = write_then_executed},
      {.rule = "rc.responder.rnr.then-executed-once",
       .variant = "WRITE after the SEND",
       .run = what_came_after_is_dropped},
      {.rule = "rc.responder.receive.kept-on-nak-and-duplicate", .variant = "RNR NAK", .run = rnr_uses_none},
      {.rule = "rc.responder.receive.kept-on-nak-and-duplicate", .variant = "a gap", .run = gap_uses_none},
      {.rule = "rc.responder.receive.kept-on-nak-and-duplicate", .variant = "duplicates", .run = duplicate_uses_none},
      {.rule = "rc.responder.receive.kept-on-nak-and-duplicate", .variant = "WRITE, READ", .run = write_uses_none},
      {.rule = "rc.responder.receive.write-with-immediate", .variant = "Only", .run = immediate_with_an_only},
      {.rule = "rc.responder.receive.write-with-immediate", .variant = "Last", .run = immediate_with_a_last},
      {.rule = "rc.responder.receive.write-with-immediate", .variant = "no bytes", .run = immediate_alone},
  };
  return list;
}

}  // namespace rdmawire::conformance::rc_responder_rnr_cases
