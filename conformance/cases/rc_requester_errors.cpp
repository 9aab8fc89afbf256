/// Errors of the requester: IBTA vol 1, 9.9.2.2, 9.9.2.4.2 and Table 59 (errors of the requester), 9.7.5.2.2 (NAK
/// codes), 10.7.3.1 (completions), C9-220 and C10-42 (requests after the error), 10.10.2.2 (states).

#include "conformance/cases/files.hpp"

namespace rdmawire::conformance::rc_requester_errors_cases {
namespace {

constexpr std::uint8_t patient = 20;  ///< a timeout of 4.3 s
constexpr std::uint8_t acknowledge = 0x11;

// Table 59: each fatal NAK has its own completion status. The QP enters the Error state, and the requests after the
// failed one are flushed.
void fatal_nak(Bench& bench, std::uint8_t code, const std::string& status) {
  Connected& qp = bench.rc({.timeout = patient});
  qp.device_sends(0);
  qp.device_sends(1);
  bench << a_send(psn(+0)) << a_send(psn(+1));
  bench >> qp.nak(code, psn(+0), 0);
  qp.completes(0, status);
  qp.flushes(1, 1);
  qp.is_in("err");
  bench << silence();
}
void invalid_request(Bench& bench) { fatal_nak(bench, nak_code::invalid_request, "rem_inv_req_err"); }
void remote_access(Bench& bench) { fatal_nak(bench, nak_code::remote_access_error, "rem_access_err"); }
void remote_operational(Bench& bench) { fatal_nak(bench, nak_code::remote_operational_error, "rem_op_err"); }

// A NAK for the second request acknowledges the first.
void the_second_fails(Bench& bench) {
  Connected& qp = bench.rc({.timeout = patient});
  for (std::uint64_t i = 0; i < 3; ++i) qp.device_writes(i);
  bench << a_write(psn(+0)) << a_write(psn(+1)) << a_write(psn(+2));
  bench >> qp.nak(nak_code::remote_access_error, psn(+1), 1);
  qp.completes(0);
  qp.completes(1, "rem_access_err");
  qp.flushes(2, 2);
}

// A NAK for a READ or an atomic.
void a_read_fails(Bench& bench) {
  Connected& qp = bench.rc({.timeout = patient});
  qp.device_reads(0);
  bench << a_read(psn(+0), 8, tester_memory);
  bench >> qp.nak(nak_code::remote_access_error, psn(+0), 0);
  qp.completes(0, "rem_access_err");
  qp.is_in("err");
}
void an_atomic_fails(Bench& bench) {
  Connected& qp = bench.rc({.timeout = patient});
  qp.device_adds(0);
  bench << a_fetch_add(psn(+0));
  bench >> qp.nak(nak_code::invalid_request, psn(+0), 0);
  qp.completes(0, "rem_inv_req_err");
  qp.is_in("err");
}

// 9.7.5.2.2: a NAK with a reserved code fails the request. The status is unspecified.
void reserved_code(Bench& bench, std::uint8_t syndrome) {
  Connected& qp = bench.rc({.timeout = patient});
  qp.device_sends(0);
  bench << a_send(psn(+0));
  bench >> qp.response(acknowledge, psn(+0), syndrome, 0);
  qp.fails(0);
}
void code_of_reliable_datagrams(Bench& bench) { reserved_code(bench, 0x64); }
void first_reserved_code(Bench& bench) { reserved_code(bench, 0x65); }
void last_reserved_code(Bench& bench) { reserved_code(bench, 0x7f); }

// 10.7.3.1: an unsignaled request generates a completion if it fails.
void unsignaled(Bench& bench) {
  Connected& qp = bench.rc({.timeout = patient});
  qp.device_sends(0, {.flags = {}});
  bench << a_send(psn(+0));
  bench >> qp.nak(nak_code::remote_operational_error, psn(+0), 0);
  qp.completes(0, "rem_op_err");
}
// An unsignaled request that succeeds generates no completion.
void unsignaled_and_well(Bench& bench) {
  Connected& qp = bench.rc({.timeout = patient});
  qp.device_sends(0, {.flags = {}});
  qp.device_sends(1);
  bench << a_send(psn(+0)) << a_send(psn(+1));
  bench >> qp.ack(psn(+1), 2);
  qp.completes(1);
  qp.completes_nothing();
}

// C9-220: the requests after the failed one complete once, in order, as flushed.
void flushed_in_order(Bench& bench) {
  Connected& qp = bench.rc({.own_reads = 1, .timeout = patient});
  qp.device_sends(0);
  qp.device_writes(1);
  qp.device_reads(2);
  qp.device_adds(3, {.offset = 64});  // not sent yet, because it waits for the READ
  qp.device_sends(4);
  bench << a_send(psn(+0)) << a_write(psn(+1)) << a_read(psn(+2), 8, tester_memory);
  bench >> qp.nak(nak_code::remote_operational_error, psn(+0), 0);
  qp.completes(0, "rem_op_err");
  qp.flushes(1, 4);
  qp.completes_nothing();
}
void flushed_after_retries(Bench& bench) {
  Connected& qp = bench.rc({.timeout = 12, .retry_cnt = 0});
  for (std::uint64_t i = 0; i < 3; ++i) qp.device_sends(i, {.flags = {}});
  qp.completes(0, "retry_exc_err");
  qp.flushes(1, 2);
  qp.completes_nothing();
}

// An operation that the service does not support is rejected or completes in error.
void an_operation_of_another_service(Bench& bench) {
  Connected& qp = bench.uc();
  const auto posted = qp.qp.post_send(
      {{.opcode = "read", .wr_id = 0, .sges = {qp.piece(0, 8)}, .remote_addr = tester_memory, .rkey = tester_rkey}});
  if (posted)
    qp.fails(0);
  else
    bench.note("rejected immediately: " + posted.error().message);
  bench << silence();
}

// An invalid local key fails the request before it is sent.
void a_wrong_local_key(Bench& bench) {
  Connected& qp = bench.rc({.timeout = patient});
  qp.post(
      {.opcode = "send", .wr_id = 0, .sges = {{.addr = qp.region.addr(), .length = 8, .lkey = 0xdead00}}, .flags = {}});
  qp.completes(0, "loc_prot_err");
  bench << silence();
  qp.is_in("err");
}

}  // namespace

std::span<const Case> all() {
  constexpr Role requester = Role::requester;
  static constexpr Case list[] = {
      {.rule = "rc.requester.nak.reserved-code",
       .variant = "0x64",
       .role = requester,
       .run = code_of_reliable_datagrams},
      {.rule = "rc.requester.nak.reserved-code", .variant = "0x65", .role = requester, .run = first_reserved_code},
      {.rule = "rc.requester.nak.reserved-code", .variant = "0x7f", .role = requester, .run = last_reserved_code},
      {.rule = "rc.requester.nak.completes-in-error",
       .variant = "invalid request",
       .role = requester,
       .run = invalid_request},
      {.rule = "rc.requester.nak.completes-in-error",
       .variant = "remote access error",
       .role = requester,
       .run = remote_access},
      {.rule = "rc.requester.nak.completes-in-error",
       .variant = "remote operational error",
       .role = requester,
       .run = remote_operational},
      {.rule = "rc.requester.nak.completes-in-error",
       .variant = "the second of three",
       .role = requester,
       .run = the_second_fails},
      {.rule = "rc.requester.nak.completes-in-error", .variant = "READ", .role = requester, .run = a_read_fails},
      {.rule = "rc.requester.nak.completes-in-error",
       .variant = "atomic",
       .role = requester,
       .needs = Need::atomics,
       .run = an_atomic_fails},
      {.rule = "rc.requester.completion.error-always-told",
       .variant = "an error",
       .role = requester,
       .run = unsignaled},
      {.rule = "rc.requester.completion.error-always-told",
       .variant = "none",
       .role = requester,
       .run = unsignaled_and_well},
      {.rule = "rc.requester.completion.flushed-in-order",
       .variant = "after a NAK",
       .role = requester,
       .run = flushed_in_order},
      {.rule = "rc.requester.completion.flushed-in-order",
       .variant = "after the last retry",
       .role = requester,
       .run = flushed_after_retries},
      {.rule = "rc.requester.completion.unknown-operation",
       .variant = "READ on UC",
       .role = requester,
       .needs = Need::uc,
       .run = an_operation_of_another_service},
      {.rule = "rc.requester.completion.error-always-told",
       .variant = "a wrong local key",
       .role = requester,
       .run = a_wrong_local_key},
  };
  return list;
}

}  // namespace rdmawire::conformance::rc_requester_errors_cases
