/// Extended reliable connections: IBTA vol 1, 5.2.8 (XRCETH), annex A14 (clause numbers not verified), o9-30 (order of
/// responses), 9.6.1 (checks of the BTH).
///
/// No driver available in the lab supports XRC. These cases have run only against the reference device.

#include <fmt/format.h>

#include "conformance/cases/files.hpp"
#include "dissectors/protocol/transport.hpp"

namespace rdmawire::conformance::xrc_cases {
namespace {

using nlohmann::json;

constexpr std::uint8_t patient = 20;  ///< a timeout of 4.3 s

// 5.2.8: the last three of the four bytes after the BTH of a request are the number of the shared receive queue.
Expectation of_xrc(std::uint8_t opcode, const Expectation& expected) {
  return expected.where(fmt::format("opcode {:#04x}, then 00 {:06x} after the BTH", opcode, tester_srq),
                        [opcode](const Seen& seen) {
                          const Layer* bth = seen.stack.find(info<Bth>);
                          const std::size_t behind = bth->offset + bth->length;
                          return seen.op->value == opcode && seen.bytes.size() >= behind + 4 &&
                                 load_be<4>(&seen.bytes[behind]) == tester_srq;
                        });
}
void sends_name_the_queue(Bench& bench) {
  Connected& qp = bench.xrc_initiator({.mtu = 256, .timeout = patient});
  qp.device_sends(0);
  qp.device_sends(1, {.length = 600});
  bench << of_xrc(0xa4, a_send(psn(+0))) << of_xrc(0xa0, a_send(psn(+1), Position::first))
        << of_xrc(0xa1, a_send(psn(+2), Position::middle)) << of_xrc(0xa2, a_send(psn(+3), Position::last));
  bench >> qp.ack(psn(+3), 2);
  qp.completes(0);
  qp.completes(1);
}
void writes_name_the_queue(Bench& bench) {
  Connected& qp = bench.xrc_initiator({.mtu = 256, .timeout = patient});
  qp.device_writes(0);
  qp.device_writes(1, {.length = 600});
  bench << of_xrc(0xaa, a_write(psn(+0))) << of_xrc(0xa6, a_write(psn(+1), Position::first))
        << of_xrc(0xa7, a_write(psn(+2), Position::middle)) << of_xrc(0xa8, a_write(psn(+3), Position::last));
  bench >> qp.ack(psn(+3), 2);
  qp.completes(0);
  qp.completes(1);
}
void reads_name_the_queue(Bench& bench) {
  Connected& qp = bench.xrc_initiator({.timeout = patient});
  qp.device_reads(0, {.length = 64});
  bench << of_xrc(0xac, a_read(psn(+0), 64, tester_memory));
  bench >> qp.read_response(Position::only, psn(+0), 1, pattern_bytes(64));
  qp.completes(0);
  qp.holds(0, pattern_bytes(64));
}
void atomics_name_the_queue(Bench& bench) {
  Connected& qp = bench.xrc_initiator({.timeout = patient});
  qp.device_adds(0);
  bench << of_xrc(0xb4, a_fetch_add(psn(+0)));
  bench >> qp.atomic_acknowledge(psn(+0), 1, 0x77);
  qp.completes(0);
}
// A retransmission has the same XRCETH.
void repeated_requests_name_the_queue(Bench& bench) {
  Connected& qp = bench.xrc_initiator({.timeout = patient});
  qp.device_sends(0);
  bench << of_xrc(0xa4, a_send(psn(+0)));
  bench >> qp.nak(nak_code::psn_sequence_error, psn(+0), 0);
  bench << of_xrc(0xa4, a_send(psn(+0)));
}

// o9-30: responses, including READ responses, are sent in PSN order.
void responses_in_order(Bench& bench) {
  Connected& qp = bench.xrc_target({.mtu = 256, .receives = 2});
  bench >> qp.send_only(psn(+0)) >> qp.read(psn(+1), qp.at(0, 768)) >> qp.send_only(psn(+4));
  bench << ack(psn(+0)).msn(1) << read_response(Position::first, psn(+1)) << read_response(Position::middle, psn(+2))
        << read_response(Position::last, psn(+3)).msn(2) << ack(psn(+4)).msn(3);
  qp.completes(0);
  qp.completes(1);
}
void each_is_acknowledged(Bench& bench) {
  Connected& qp = bench.xrc_target({.mtu = 256, .receives = 1});
  const std::string payload = pattern_bytes(300);
  bench >> qp.send_first(psn(+0), payload.substr(0, 256)) >> qp.send_last(psn(+1), payload.substr(256));
  bench << acknowledged(psn(+1)).msn(1);
  qp.completes(0);
  qp.received(0, payload);
  bench >> qp.write_only(psn(+2), qp.at(16, 0, pattern_bytes(32)));
  bench << ack(psn(+2)).msn(2);
  qp.holds(16, pattern_bytes(32));
}

// A SEND selects the receive queue, which must be in the QP's XRC domain.
void queue_of_another_domain(Bench& bench) {
  Connected& qp = bench.xrc_target({.receives = 1});
  Connected& other = bench.xrc_target({.receives = 1, .xrc_domain = 1});
  bench >> qp.request(0xa4, psn(+0), {.payload = pattern_bytes(8), .xrc_srq = other.xrc_srq});
  qp.refuses(nak_invalid_request(psn(+0)));
  other.completes_nothing();
}
void queue_that_does_not_exist(Bench& bench) {
  Connected& qp = bench.xrc_target({.receives = 1});
  bench >> qp.request(0xa4, psn(+0), {.payload = pattern_bytes(8), .xrc_srq = qp.xrc_srq ^ 0x800000});
  qp.refuses(nak_invalid_request(psn(+0)));
  qp.completes_nothing();
}
// The sender may select any queue of the domain, message by message.
void any_queue_of_the_domain(Bench& bench) {
  Connected& qp = bench.xrc_target({.receives = 1});
  Connected& other = bench.xrc_target({.receives = 1});
  bench >> qp.request(0xa4, psn(+0), {.payload = pattern_bytes(24), .xrc_srq = other.xrc_srq});
  bench << ack(psn(+0)).msn(1);
  other.completes(0);
  other.received(0, pattern_bytes(24));
  qp.completes_nothing();
}

void no_receive_posted(Bench& bench) {
  Connected& qp = bench.xrc_target();
  bench >> qp.send_only(psn(+0));
  bench << rnr_nak(psn(+0), 12);
  qp.post_receives(1);
  bench >> qp.send_only(psn(+0));
  bench << ack(psn(+0)).msn(1);
  qp.completes(0);
}
void no_receive_in_the_queue_that_is_named(Bench& bench) {
  Connected& qp = bench.xrc_target({.receives = 1});
  Connected& empty = bench.xrc_target();
  bench >> qp.request(0xa4, psn(+0), {.payload = pattern_bytes(8), .xrc_srq = empty.xrc_srq});
  bench << rnr_nak(psn(+0), 12);
  qp.completes_nothing();
}

// An XRC opcode to an RC QP is dropped and not counted.
void xrc_opcode_to_rc(Bench& bench) {
  Connected& qp = bench.rc({.receives = 1});
  bench >> qp.request(0xa4, psn(+0), {.payload = pattern_bytes(8), .xrc_srq = 1});
  bench << silence();
  qp.completes_nothing();
  bench >> qp.send_only(psn(+0));
  bench << ack(psn(+0)).msn(1);
  qp.completes(0);
}

// An RC opcode to an XRC target is dropped.
void rc_opcode_to_xrc(Bench& bench) {
  Connected& qp = bench.xrc_target({.receives = 1});
  TesterQueuePair of_rc = qp;
  of_rc.transport = Transport::rc;
  bench >> of_rc.send_only(psn(+0));
  bench << silence();
  qp.completes_nothing();
  bench >> qp.send_only(psn(+0));
  bench << ack(psn(+0)).msn(1);
  qp.completes(0);
}

// Everything else is as for a reliable connection: 9.4.3 to 9.4.5, Table 63.
Operands adding(const Connected& qp, std::uint64_t value, std::uint64_t offset = 0) {
  Operands operands = qp.at(offset);
  operands.swap_or_add = value;
  return operands;
}
void answers_reads(Bench& bench) {
  Connected& qp = bench.xrc_target({.mtu = 256});
  const std::string memory = pattern_bytes(600, 9);
  qp.fill(0, memory);
  bench >> qp.read(psn(+0), qp.at(0, 600));
  bench << read_response(Position::first, psn(+0)).carrying(memory.substr(0, 256))
        << read_response(Position::middle, psn(+1)).carrying(memory.substr(256, 256))
        << read_response(Position::last, psn(+2)).carrying(memory.substr(512)).msn(1);
}
void adds(Bench& bench) {
  Connected& qp = bench.xrc_target();
  bench >> qp.fetch_add(psn(+0), adding(qp, 0x100000005));
  bench << atomic_acknowledge(psn(+0), 0).msn(1);
  bench >> qp.fetch_add(psn(+1), adding(qp, 7));
  bench << atomic_acknowledge(psn(+1), 0x100000005).msn(2);
  bench >> qp.fetch_add(psn(+1), adding(qp, 7));  // a duplicate: answered with the saved value, not executed
  bench << atomic_acknowledge(psn(+1), 0x100000005);
  bench >> qp.fetch_add(psn(+2), adding(qp, 0));
  bench << atomic_acknowledge(psn(+2), 0x10000000c).msn(3);
}
void swaps(Bench& bench) {
  Connected& qp = bench.xrc_target();
  bench >> qp.compare_swap(psn(+0), adding(qp, 0x1122334455667788));  // equal to 0
  bench << atomic_acknowledge(psn(+0), 0).msn(1);
  bench >> qp.compare_swap(psn(+1), adding(qp, 5));  // no longer equal
  bench << atomic_acknowledge(psn(+1), 0x1122334455667788).msn(2);
  bench >> qp.fetch_add(psn(+2), adding(qp, 0));
  bench << atomic_acknowledge(psn(+2), 0x1122334455667788);
}
void misaligned_atomic(Bench& bench) {
  Connected& qp = bench.xrc_target();
  bench >> qp.fetch_add(psn(+0), adding(qp, 5, 4));
  qp.refuses(nak_invalid_request(psn(+0)));
  qp.holds(0, std::string(16, '\0'));
}
void foreign_key(Bench& bench) {
  Connected& qp = bench.xrc_target();
  Operands operands = qp.at(0, 8);
  operands.rkey ^= 0x5500;
  bench >> qp.read(psn(+0), operands);
  qp.refuses(nak_remote_access(psn(+0)));
}
// Keys are checked against the protection domain of the shared receive queue: a target has none of its own.
void region_of_another_domain(Bench& bench) {
  Connected& qp = bench.xrc_target();
  const peer::Region other = bench.region(4096, {"local_write", "remote_write", "remote_read"}, 1);
  bench >> qp.write_only(psn(+0), Bench::of(other, 0, 0, pattern_bytes(8)));
  qp.refuses(nak_remote_access(psn(+0)));
}
void a_gap_draws_a_nak(Bench& bench) {
  Connected& qp = bench.xrc_target({.receives = 1});
  bench >> qp.send_only(psn(+1));
  bench << nak_sequence_error(psn(+0)).msn(0) << silence();
  bench >> qp.send_only(psn(+0));
  bench << ack(psn(+0)).msn(1);
}
void expect_retry(Bench& bench) {
  Connected& qp = bench.xrc_initiator({.mtu = 256, .timeout = patient});
  qp.device_reads(0, {.length = 600});
  bench << a_read(psn(+0), 600, tester_memory);
  bench >> qp.read_response(Position::first, psn(+0), 1, pattern_bytes(256)) >>
      qp.read_response(Position::last, psn(+2), 1, pattern_bytes(600).substr(512));
  bench << a_read(psn(+1), 344, tester_memory + 256);
  bench >> qp.read_response(Position::first, psn(+1), 1, pattern_bytes(600).substr(256, 256)) >>
      qp.read_response(Position::last, psn(+2), 1, pattern_bytes(600).substr(512));
  qp.completes(0);
  qp.holds(0, pattern_bytes(600));
}
void errors_end_in_completions(Bench& bench) {
  Connected& qp = bench.xrc_initiator({.timeout = patient});
  qp.device_adds(0);
  bench << a_fetch_add(psn(+0));
  bench >> qp.nak(nak_code::remote_access_error, psn(+0), 0);
  qp.completes(0, "rem_access_err");
  qp.is_in("err");
}

// A completion of an XRC shared receive queue reports the sender's QP, which the queue does not imply.
void completions_name_the_source(Bench& bench) {
  Connected& one = bench.xrc_target({.receives = 2});
  Connected& two = bench.xrc_target();
  bench >> one.send_only(psn(+0));
  bench << ack(psn(+0));
  bench >> two.request(0xa4, psn(+0), {.payload = pattern_bytes(8), .xrc_srq = one.xrc_srq});
  bench << ack(psn(+0));
  for (const std::uint64_t wr_id : {0U, 1U}) {
    const peer::Completion completion = one.completes(wr_id);
    const std::uint32_t source = wr_id == 0 ? one.tester_qpn : two.tester_qpn;
    bench.require(completion.src_qp == source, fmt::format("source QP {:#x} in the completion", source),
                  completion.src_qp ? fmt::format("{:#x}", *completion.src_qp) : "none");
  }
}

// A17.5.4: a target has only the attributes of a responder. Only the initiator sends requests, so only it has retry
// counts and READs.
struct TargetStep {
  const char* to;
  std::vector<const char*> attributes;
};
const std::vector<TargetStep>& steps_of_target() {
  static const std::vector<TargetStep> steps = {
      {"init", {"pkey_index", "port", "access"}},
      {"rtr", {"ah_attr", "path_mtu", "dest_qp_num", "rq_psn", "max_dest_rd_atomic", "min_rnr_timer"}},
      {"rts", {"sq_psn", "timeout"}}};
  return steps;
}
json attributes_of(const Connected& qp, const TargetStep& step) {
  const json all = qp.attributes_to(step.to);
  json attributes = {{"state", step.to}};
  for (const char* name : step.attributes) attributes[name] = all.at(name);
  return attributes;
}
void takes_a_responders_attributes(Bench& bench) {
  Connected& qp = bench.xrc_target({.receives = 1, .state = "reset"});
  for (const TargetStep& step : steps_of_target()) {
    const auto done = qp.try_to_modify(attributes_of(qp, step));
    bench.require(done.has_value(), fmt::format("to {} with the attributes of a responder", step.to),
                  done ? "done" : done.error().message);
  }
  bench >> qp.send_only(psn(+0));
  bench << ack(psn(+0)).msn(1);
}
void needs_each_of_them(Bench& bench) {
  Connected& qp = bench.xrc_target({.state = "reset"});
  for (const TargetStep& step : steps_of_target()) {
    for (const char* name : step.attributes) {
      json attributes = attributes_of(qp, step);
      attributes.erase(name);
      bench.is_refused(qp.qp.modify(attributes), fmt::format("to {} without {}", step.to, name));
    }
    qp.modify(attributes_of(qp, step));
  }
}
void skips_no_state(Bench& bench) {
  Connected& qp = bench.xrc_target({.state = "reset"});
  bench.is_refused(qp.qp.modify(qp.attributes_to("rtr")), "RESET to RTR");
  bench.is_refused(qp.qp.modify(qp.attributes_to("rts")), "RESET to RTS");
  qp.bring_to("init");
  bench.is_refused(qp.qp.modify(qp.attributes_to("rts")), "INIT to RTS");
}
void has_no_send_queue(Bench& bench) {
  Connected& qp = bench.xrc_target();
  bench.is_refused(qp.qp.post_send({{.opcode = "send", .sges = {qp.piece(0, 8)}, .remote_srqn = tester_srq}}),
                   "posting a send to a target of XRC");
  bench << silence();
}

// A device that lacks XRC has no XRC QPs and drops the XRC opcodes.
void absent_means_dropped(Bench& bench) {
  bench.without_xrc();
  xrc_opcode_to_rc(bench);
}

}  // namespace

std::span<const Case> all() {
  constexpr Role requester = Role::requester, verbs = Role::verbs;
  constexpr Need xrc = Need::xrc;
  static constexpr Case list[] = {
      {.rule = "xrc.requester.headers.xrceth",
       .variant = "SEND",
       .role = requester,
       .needs = xrc,
       .run = sends_name_the_queue},
      {.rule = "xrc.requester.headers.xrceth",
       .variant = "WRITE",
       .role = requester,
       .needs = xrc,
       .run = writes_name_the_queue},
      {.rule = "xrc.requester.headers.xrceth",
       .variant = "READ",
       .role = requester,
       .needs = xrc,
       .run = reads_name_the_queue},
      {.rule = "xrc.requester.headers.xrceth",
       .variant = "FetchAdd",
       .role = requester,
       .needs = xrc,
       .run = atomics_name_the_queue},
      {.rule = "xrc.requester.headers.xrceth",
       .variant = "retransmitted",
       .role = requester,
       .needs = xrc,
       .run = repeated_requests_name_the_queue},
      {.rule = "xrc.responder.order.responses-by-psn",
       .variant = "SEND, READ, SEND",
       .needs = xrc,
       .run = responses_in_order},
      {.rule = "xrc.responder.order.responses-by-psn",
       .variant = "each acknowledged",
       .needs = xrc,
       .run = each_is_acknowledged},
      {.rule = "xrc.responder.receive.other-domain",
       .variant = "SRQ of another domain",
       .needs = xrc,
       .run = queue_of_another_domain},
      {.rule = "xrc.responder.receive.other-domain",
       .variant = "nonexistent SRQ",
       .needs = xrc,
       .run = queue_that_does_not_exist},
      {.rule = "xrc.responder.receive.other-domain",
       .variant = "any SRQ of the domain",
       .needs = xrc,
       .run = any_queue_of_the_domain},
      {.rule = "xrc.responder.receive.none-posted", .needs = xrc, .run = no_receive_posted},
      {.rule = "xrc.responder.receive.none-posted",
       .variant = "another SRQ has receives",
       .needs = xrc,
       .run = no_receive_in_the_queue_that_is_named},
      {.rule = "xrc.responder.opcode.other-service-dropped", .variant = "XRC opcode to RC", .run = xrc_opcode_to_rc},
      {.rule = "xrc.responder.opcode.other-service-dropped",
       .variant = "RC opcode to XRC",
       .needs = xrc,
       .run = rc_opcode_to_xrc},
      {.rule = "xrc.responder.operations.as-reliable-connection",
       .variant = "READ",
       .needs = xrc,
       .run = answers_reads},
      {.rule = "xrc.responder.operations.as-reliable-connection", .variant = "FetchAdd", .needs = xrc, .run = adds},
      {.rule = "xrc.responder.operations.as-reliable-connection", .variant = "CmpSwap", .needs = xrc, .run = swaps},
      {.rule = "xrc.responder.operations.as-reliable-connection",
       .variant = "misaligned",
       .needs = xrc,
       .run = misaligned_atomic},
      {.rule = "xrc.responder.operations.as-reliable-connection",
       .variant = "unused key",
       .needs = xrc,
       .run = foreign_key},
      {.rule = "xrc.responder.operations.as-reliable-connection",
       .variant = "protection domain",
       .needs = xrc,
       .run = region_of_another_domain},
      {.rule = "xrc.responder.operations.as-reliable-connection",
       .variant = "PSN gap",
       .needs = xrc,
       .run = a_gap_draws_a_nak},
      {.rule = "xrc.responder.operations.as-reliable-connection",
       .variant = "a lost response",
       .role = requester,
       .needs = xrc,
       .run = expect_retry},
      {.rule = "xrc.responder.operations.as-reliable-connection",
       .variant = "NAK",
       .role = requester,
       .needs = xrc,
       .run = errors_end_in_completions},
      {.rule = "xrc.responder.completion.source-queue-pair", .needs = xrc, .run = completions_name_the_source},
      {.rule = "xrc.verbs.modify.as-responder",
       .variant = "attributes",
       .role = verbs,
       .needs = xrc,
       .run = takes_a_responders_attributes},
      {.rule = "xrc.verbs.modify.as-responder",
       .variant = "one attribute omitted",
       .role = verbs,
       .needs = xrc,
       .run = needs_each_of_them},
      {.rule = "xrc.verbs.modify.as-responder",
       .variant = "order of the states",
       .role = verbs,
       .needs = xrc,
       .run = skips_no_state},
      {.rule = "xrc.verbs.modify.as-responder",
       .variant = "no send queue",
       .role = verbs,
       .needs = xrc,
       .run = has_no_send_queue},
      {.rule = "xrc.verbs.capability.absent-means-dropped", .run = absent_means_dropped},
  };
  return list;
}

}  // namespace rdmawire::conformance::xrc_cases
