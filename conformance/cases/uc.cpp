/// Unreliable connections: IBTA vol 1, 9.8.2 (PSNs and messages), Table 63 (errors of the responder), Table 38
/// (opcodes). Most clause numbers not verified.

#include <fmt/format.h>

#include "conformance/cases/files.hpp"

namespace rdmawire::conformance::uc_cases {
namespace {

/// Checks that the QP still receives in-order packets: a SEND, without a response.
void receives(Bench& bench, Connected& qp, psn at, std::uint64_t wr_id) {
  const std::string payload = pattern_bytes(24, 0x40);
  bench >> qp.send_only(at, payload).without_ack_request();
  qp.completes(wr_id);
  qp.received(wr_id, payload);
  bench << silence();
}

void sends_are_not_answered(Bench& bench) {
  Connected& qp = bench.uc({.mtu = 256, .receives = 3});
  receives(bench, qp, psn(+0), 0);
  const std::string payload = pattern_bytes(400);
  bench >> qp.send_first(psn(+1), payload.substr(0, 256)) >> qp.send_last(psn(+2), payload.substr(256));  // with AckReq
  qp.completes(1);
  qp.received(1, payload);
  bench << silence();
}
void writes_are_not_answered(Bench& bench) {
  Connected& qp = bench.uc();
  bench >> qp.write_only(psn(+0), qp.at(16, 0, pattern_bytes(32)));
  bench << silence();
  qp.holds(16, pattern_bytes(32));
}

// A gap within a message loses only this message: the next First or Only packet is accepted with its PSN.
void a_middle_is_lost(Bench& bench) {
  Connected& qp = bench.uc({.mtu = 256, .receives = 2});
  bench >> qp.send_first(psn(+0), pattern_bytes(256)) >> qp.send_last(psn(+2), pattern_bytes(8));
  bench << silence();
  qp.completes_nothing();
  receives(bench, qp, psn(+3), 0);
}
void a_last_is_lost(Bench& bench) {
  Connected& qp = bench.uc({.mtu = 256, .receives = 2});
  bench >> qp.send_first(psn(+0), pattern_bytes(256)) >> qp.send_middle(psn(+1), pattern_bytes(256));
  receives(bench, qp, psn(+3), 0);
}
void a_write_loses_its_middle(Bench& bench) {
  Connected& qp = bench.uc({.mtu = 256, .receives = 1});
  bench >> qp.write_first(psn(+0), qp.at(0, 768, pattern_bytes(256, 0x20))) >>
      qp.write_last(psn(+2), pattern_bytes(256, 0x20));
  bench << silence();
  qp.holds(512, std::string(256, '\0'));
  receives(bench, qp, psn(+3), 0);
}
void an_only_is_lost(Bench& bench) {
  Connected& qp = bench.uc({.receives = 3});
  receives(bench, qp, psn(+0), 0);
  receives(bench, qp, psn(+5), 1);
  receives(bench, qp, psn(+6), 2);
}
void a_loss_across_the_wrap(Bench& bench) {
  Connected& qp = bench.uc({.receives = 2, .first_psn = 0xffffff});
  receives(bench, qp, psn(+0), 0);
  receives(bench, qp, psn(+3), 1);
}

// Class D: a message that starts with a Middle or Last packet is dropped and consumes no receive.
void starts_with_a_middle(Bench& bench) {
  Connected& qp = bench.uc({.mtu = 256, .receives = 1});
  bench >> qp.send_middle(psn(+0), pattern_bytes(256)) >> qp.send_last(psn(+1), pattern_bytes(8));
  bench << silence();
  qp.completes_nothing();
  receives(bench, qp, psn(+2), 0);
}
void starts_with_a_last(Bench& bench) {
  Connected& qp = bench.uc({.receives = 1});
  bench >> qp.send_last(psn(+0), pattern_bytes(8));
  bench << silence();
  qp.completes_nothing();
  receives(bench, qp, psn(+1), 0);
}

// Class D1: a First packet within a message starts a new message that uses the same receive.
void a_first_in_a_message(Bench& bench) {
  Connected& qp = bench.uc({.mtu = 256, .receives = 1});
  const std::string payload = pattern_bytes(300, 0x60);
  bench >> qp.send_first(psn(+0), pattern_bytes(256)) >> qp.send_first(psn(+1), payload.substr(0, 256)) >>
      qp.send_last(psn(+2), payload.substr(256));
  qp.completes(0);
  qp.received(0, payload);
  bench << silence();
}
void an_only_in_a_message(Bench& bench) {
  Connected& qp = bench.uc({.mtu = 256, .receives = 1});
  bench >> qp.send_first(psn(+0), pattern_bytes(256));
  receives(bench, qp, psn(+1), 0);
}
// Class E: a receive of a shared queue cannot be reused, so it completes in error.
void a_first_in_a_message_shared(Bench& bench) {
  Connected& qp = bench.uc({.mtu = 256, .receives = 2, .shared_receives = true});
  bench >> qp.send_first(psn(+0), pattern_bytes(256)) >> qp.send_first(psn(+1), pattern_bytes(256)) >>
      qp.send_last(psn(+2), pattern_bytes(8));
  qp.fails(0);
  bench << silence();
}

void no_receive(Bench& bench) {
  Connected& qp = bench.uc();
  bench >> qp.send_only(psn(+0)).without_ack_request();
  bench << silence();
  qp.post_receives(1);
  qp.completes_nothing();
  receives(bench, qp, psn(+1), 0);
}

// Table 63: a WRITE without access rights is dropped silently.
void refused_write(Bench& bench, const ConnectOptions& options, const std::function<Operands(Connected&)>& operands) {
  Connected& qp = bench.uc(options);
  bench >> qp.write_only(psn(+0), operands(qp));
  bench << silence();
  qp.holds(0, std::string(64, '\0'));
  qp.holds(qp.options.region_bytes - 64, std::string(64, '\0'));
}
void a_wrong_rkey(Bench& bench) {
  refused_write(bench, {}, [](Connected& qp) {
    Operands operands = qp.at(0, 0, pattern_bytes(8));
    operands.rkey ^= 0x100;
    return operands;
  });
}
void after_the_region(Bench& bench) {
  refused_write(bench, {}, [](Connected& qp) { return qp.at(qp.options.region_bytes - 7, 0, pattern_bytes(8)); });
}
void without_the_regions_right(Bench& bench) {
  refused_write(bench, {.region_access = {"local_write", "remote_read"}},
                [](Connected& qp) { return qp.at(0, 0, pattern_bytes(8)); });
}
void without_the_queue_pairs_right(Bench& bench) {
  refused_write(bench, {.access = {"remote_read"}}, [](Connected& qp) { return qp.at(0, 0, pattern_bytes(8)); });
}

void longer_than_the_receive(Bench& bench) {
  Connected& qp = bench.uc({.receives = 2, .receive_bytes = 64});
  bench >> qp.send_only(psn(+0), pattern_bytes(65)).without_ack_request();
  bench << silence();
  qp.is_in("rts");
  // The QP continues to work. The receive of the dropped message may have completed in error.
  bench >> qp.send_only(psn(+1), pattern_bytes(64)).without_ack_request();
  auto found = bench.take(qp.completions().poll(1, bench.answer_time()), "poll for a completion");
  if (!found.empty() && !found.front().good())
    found = bench.take(qp.completions().poll(1, bench.answer_time()), "poll for a completion");
  const bool good = !found.empty() && found.front().good();
  bench.require(good && found.front().byte_len == 64, "the next message received",
                good ? fmt::format("{} bytes", found.front().byte_len) : "no completion with success");
}
void longer_than_the_shared_receive(Bench& bench) {
  Connected& qp = bench.uc({.receives = 1, .receive_bytes = 64, .shared_receives = true});
  bench >> qp.send_only(psn(+0), pattern_bytes(65)).without_ack_request();
  qp.fails(0);
  bench << silence();
}

// A zero-length WRITE does not use its key, as C9-88 states for RC.
void nothing_with_a_wrong_rkey(Bench& bench) {
  Connected& qp = bench.uc({.receives = 2});
  bench >> qp.request(Operation::rdma_write, Position::only, psn(+0), {.va = 0x1234, .rkey = 0xdead00});
  bench << silence();
  receives(bench, qp, psn(+1), 0);
  qp.is_in("rts");
}
void nothing_but_an_immediate_with_a_wrong_rkey(Bench& bench) {
  constexpr std::uint8_t write_only_with_immediate = 0x2b;
  Connected& qp = bench.uc({.receives = 1});
  bench >> qp.request(write_only_with_immediate, psn(+0), {.va = 0x1234, .rkey = 0xdead00, .immediate = 0x12345678});
  const peer::Completion completion = qp.completes(0);
  bench.require(completion.byte_len == 0 && completion.imm == 0x12345678U, "0 bytes, and the immediate data",
                fmt::format("{} bytes, immediate {:#x}", completion.byte_len, completion.imm.value_or(0)));
}

// Table 38: UC supports only SENDs and WRITEs.
void undefined(Bench& bench, std::uint8_t opcode) {
  Connected& qp = bench.uc({.receives = 1});
  bench >> qp.request(opcode, psn(+0), {.va = qp.region.addr(), .rkey = qp.region.rkey(), .length = 8});
  bench << silence();
  qp.completes_nothing();
  receives(bench, qp, psn(+1), 0);
}
void a_read(Bench& bench) { undefined(bench, 0x2c); }
void an_atomic(Bench& bench) { undefined(bench, 0x33); }
void a_reserved_opcode(Bench& bench) { undefined(bench, 0x3f); }

}  // namespace

std::span<const Case> all() {
  static constexpr Case list[] = {
      {.rule = "uc.responder.response.none", .variant = "SEND", .needs = Need::uc, .run = sends_are_not_answered},
      {.rule = "uc.responder.response.none", .variant = "WRITE", .needs = Need::uc, .run = writes_are_not_answered},
      {.rule = "uc.responder.psn.gap-in-message", .variant = "Middle", .needs = Need::uc, .run = a_middle_is_lost},
      {.rule = "uc.responder.psn.gap-in-message", .variant = "Last", .needs = Need::uc, .run = a_last_is_lost},
      {.rule = "uc.responder.psn.gap-in-message",
       .variant = "WRITE",
       .needs = Need::uc,
       .run = a_write_loses_its_middle},
      {.rule = "uc.responder.psn.gap-between-messages", .variant = "Only", .needs = Need::uc, .run = an_only_is_lost},
      {.rule = "uc.responder.psn.gap-between-messages",
       .variant = "modulo 2^24",
       .needs = Need::uc,
       .run = a_loss_across_the_wrap},
      {.rule = "uc.responder.opcode.begins-in-the-middle",
       .variant = "Middle",
       .needs = Need::uc,
       .run = starts_with_a_middle},
      {.rule = "uc.responder.opcode.begins-in-the-middle",
       .variant = "Last",
       .needs = Need::uc,
       .run = starts_with_a_last},
      {.rule = "uc.responder.opcode.message-not-ended",
       .variant = "First",
       .needs = Need::uc,
       .run = a_first_in_a_message},
      {.rule = "uc.responder.opcode.message-not-ended",
       .variant = "Only",
       .needs = Need::uc,
       .run = an_only_in_a_message},
      {.rule = "uc.responder.opcode.message-not-ended-shared",
       .needs = Need::uc | Need::shared_receive_queues,
       .run = a_first_in_a_message_shared},
      {.rule = "uc.responder.receive.none-posted", .needs = Need::uc, .run = no_receive},
      {.rule = "uc.responder.access.violation-dropped",
       .variant = "wrong R_Key",
       .needs = Need::uc,
       .run = a_wrong_rkey},
      {.rule = "uc.responder.access.violation-dropped",
       .variant = "out of bounds by one",
       .needs = Need::uc,
       .run = after_the_region},
      {.rule = "uc.responder.access.violation-dropped",
       .variant = "region without the access right",
       .needs = Need::uc,
       .run = without_the_regions_right},
      {.rule = "uc.responder.access.violation-dropped",
       .variant = "QP without the access right",
       .needs = Need::uc,
       .run = without_the_queue_pairs_right},
      {.rule = "uc.responder.length.receive-too-small",
       .variant = "own queue",
       .needs = Need::uc,
       .run = longer_than_the_receive},
      {.rule = "uc.responder.length.receive-too-small",
       .variant = "shared queue",
       .needs = Need::uc | Need::shared_receive_queues,
       .run = longer_than_the_shared_receive},
      {.rule = "uc.responder.access.zero-length-unchecked",
       .variant = "WRITE",
       .needs = Need::uc,
       .run = nothing_with_a_wrong_rkey},
      {.rule = "uc.responder.access.zero-length-unchecked",
       .variant = "WRITE with immediate",
       .needs = Need::uc,
       .run = nothing_but_an_immediate_with_a_wrong_rkey},
      {.rule = "uc.responder.opcode.undefined-dropped", .variant = "READ", .needs = Need::uc, .run = a_read},
      {.rule = "uc.responder.opcode.undefined-dropped", .variant = "atomic", .needs = Need::uc, .run = an_atomic},
      {.rule = "uc.responder.opcode.undefined-dropped",
       .variant = "reserved",
       .needs = Need::uc,
       .run = a_reserved_opcode},
  };
  return list;
}

}  // namespace rdmawire::conformance::uc_cases
