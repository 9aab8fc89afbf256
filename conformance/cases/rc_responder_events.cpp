/// Events of the responder's application: events, completions in error, solicited events, invalidated keys, states.
/// IBTA vol 1, C9-222.1.1 (9.9.3.1.3), 10.10.2, 9.2 (SE), 11.4.2.2, 9.4.1.1.3, 10.3.1, o11-5.2.5.

#include <fmt/format.h>

#include <functional>

#include "conformance/cases/files.hpp"
#include "conformance/cases/path_mtu.hpp"

namespace rdmawire::conformance::rc_responder_events_cases {
namespace {

constexpr std::uint8_t send_last_with_invalidate = 0x16, send_only_with_invalidate = 0x17;
constexpr std::uint8_t write_only_with_immediate = 0x0b;
constexpr std::uint32_t unused_key = 0xdeadbe00;

Operands with_key(Operands operands, std::uint32_t rkey) {
  operands.rkey = rkey;
  return operands;
}

// A WRITE without immediate data that violates its R_Key consumes no receive, so an event reports the violation.
// C9-222.1.1, 10.10.2.3
void event_of_a_wrong_key(Bench& bench) {
  Connected& qp = bench.rc();
  bench >> qp.write_only(psn(+0), with_key(qp.at(0, 0, pattern_bytes(8)), unused_key));
  bench << nak_remote_access(psn(+0));
  bench.tells("qp_access_err", "qp", qp.qp.handle());
}
void event_of_a_range(Bench& bench) {
  Connected& qp = bench.rc({.region_bytes = 4096});
  bench >> qp.write_only(psn(+0), qp.at(4090, 0, pattern_bytes(8)));
  bench << nak_remote_access(psn(+0));
  bench.tells("qp_access_err", "qp", qp.qp.handle());
}

// If the request consumes a receive, its completion reports the violation. C9-222.1.1, 10.10.2.2
void receive_reports_a_long_send(Bench& bench) {
  Connected& qp = bench.rc({.receives = 2, .receive_bytes = 64});
  bench >> qp.send_only(psn(+0), pattern_bytes(65));
  bench << nak_invalid_request(psn(+0));
  qp.fails(0);
  qp.completes(1, "wr_flush_err");
  qp.is_in("err");
}
void receive_reports_a_wrong_key(Bench& bench) {
  Connected& qp = bench.rc({.receives = 2});
  bench >> qp.request(write_only_with_immediate, psn(+0), with_key(qp.at(0, 8, pattern_bytes(8)), unused_key));
  bench << nak_remote_access(psn(+0));
  qp.fails(0);
  qp.completes(1, "wr_flush_err");
  qp.is_in("err");
}

// SEND with Invalidate invalidates the window's key. 9.4.1.1.3
const ConnectOptions with_windows{.receives = 2,
                                  .region_access = {"local_write", "remote_write", "remote_read", "mw_bind"},
                                  .access = {"remote_write", "remote_read", "mw_bind"}};
void invalidated(Bench& bench, bool long_message) {
  ConnectOptions options = with_windows;
  options.mtu = 256;
  Connected& qp = bench.rc(options);
  const std::uint32_t rkey = bench.bound_window(qp, 0, 4096, {"remote_read"});
  bench >> qp.read(psn(+0), with_key(qp.at(0, 8), rkey));
  bench << read_response(Position::only, psn(+0));
  psn at(+1);
  if (long_message) {
    bench >> qp.send_first(at, pattern_bytes(256)).without_ack_request();
    at = at + 1;
  }
  bench >> qp.request(long_message ? send_last_with_invalidate : send_only_with_invalidate, at,
                      {.payload = pattern_bytes(8), .invalidated_rkey = rkey});
  bench << acknowledged(at).msn(2);
  const peer::Completion completion = qp.completes(0);
  if (completion.invalidated_rkey != rkey) bench.note("the completion does not contain the key that was invalidated");
  bench >> qp.read(at + 1, with_key(qp.at(0, 8), rkey));
  qp.refuses(nak_remote_access(at + 1));
}
void invalidated_by_an_only(Bench& bench) { invalidated(bench, false); }
void invalidated_by_a_last(Bench& bench) { invalidated(bench, true); }

// A key that cannot be invalidated: the operation fails, and the QP enters the Error state. The SEND may or may not be
// acknowledged.
void not_invalidated(Bench& bench, Connected& qp, std::uint32_t rkey) {
  bench >> qp.request(send_only_with_invalidate, psn(+0), {.payload = pattern_bytes(8), .invalidated_rkey = rkey});
  qp.fails(0);
  qp.is_in("err");
}
void registered_region_not_invalidated(Bench& bench) {
  Connected& qp = bench.rc({.receives = 1});
  not_invalidated(bench, qp, qp.region.rkey());
}
void unused_key_not_invalidated(Bench& bench) {
  Connected& qp = bench.rc({.receives = 1});
  not_invalidated(bench, qp, unused_key);
}
void region_with_a_window_not_invalidated(Bench& bench) {
  Connected& qp = bench.rc(with_windows);
  bench.bound_window(qp, 0, 4096, {"remote_read"});
  not_invalidated(bench, qp, qp.region.rkey());
}

// Only SE on the last packet of a SEND or of a WRITE with immediate data notifies an application that waits for
// solicited completions. 9.2, 11.4.2.2
void solicited(Bench& bench, const std::function<void(Connected&)>& say, bool woken) {
  Connected& qp = bench.rc({.mtu = small_packets, .receives = 1, .notifies = true});
  qp.ask_for_notification(true);
  say(qp);
  qp.is_notified(woken);
  qp.completes(0);
}
void solicited_by_an_only(Bench& bench) {
  solicited(
      bench, [&](Connected& qp) { bench >> qp.send_only(psn(+0)).solicited(); }, true);
}
void solicited_by_a_last(Bench& bench) {
  solicited(
      bench,
      [&](Connected& qp) {
        bench >> qp.send_first(psn(+0), pattern_bytes(qp.mtu)) >> qp.send_last(psn(+1), pattern_bytes(8)).solicited();
      },
      true);
}
void solicited_by_a_write(Bench& bench) {
  solicited(
      bench,
      [&](Connected& qp) {
        bench >> qp.request(write_only_with_immediate, psn(+0), qp.at(0, 8, pattern_bytes(8))).solicited();
      },
      true);
}
void unsolicited_by_an_only(Bench& bench) {
  solicited(
      bench, [&](Connected& qp) { bench >> qp.send_only(psn(+0)); }, false);
}
void unsolicited_by_a_first(Bench& bench) {
  solicited(
      bench,
      [&](Connected& qp) {
        bench >> qp.send_first(psn(+0), pattern_bytes(qp.mtu)).solicited() >> qp.send_last(psn(+1), pattern_bytes(8));
      },
      false);
}

// In RTR requests are executed and acknowledged. 10.3.1
void ready_to_receive(Bench& bench) {
  Connected& qp = bench.rc({.receives = 1, .state = "rtr"});
  qp.accepts(qp.send_only(psn(+0), pattern_bytes(8)), pattern_bytes(8));
  qp.is_in("rtr");
}
void read_while_ready_to_receive(Bench& bench) {
  Connected& qp = bench.rc({.state = "rtr"});
  bench >> qp.read(psn(+0), qp.at(0, 8)) >> qp.write_only(psn(+1), qp.at(0, 0, pattern_bytes(8)));
  bench << read_response(Position::only, psn(+0)) << ack(psn(+1)).msn(2);
}

// In RESET, INIT and ERR, requests cause no response. 10.3.1
void in_reset(Bench& bench) {
  Connected& qp = bench.rc({.state = "reset"});
  bench >> qp.send_only(psn(+0)) >> qp.write_only(psn(+0), qp.at(0, 0, pattern_bytes(8)));
  bench << silence();
  qp.holds(0, std::string(8, '\0'));
}
void in_init(Bench& bench) {
  Connected& qp = bench.rc({.receives = 1, .state = "init"});
  bench >> qp.send_only(psn(+0)) >> qp.write_only(psn(+0), qp.at(0, 0, pattern_bytes(8)));
  bench << silence();
  qp.completes_nothing();
  qp.holds(0, std::string(8, '\0'));
}
void in_error(Bench& bench) {
  Connected& qp = bench.rc({.receives = 1});
  qp.modify({{"state", "err"}});
  qp.completes(0, "wr_flush_err");
  bench >> qp.send_only(psn(+0)) >> qp.write_only(psn(+0), qp.at(0, 0, pattern_bytes(8)));
  bench << silence();
  qp.holds(0, std::string(8, '\0'));
}

// An error between SENDs: each SEND consumes at most one receive, the executed ones complete first and with their data,
// and the remaining receives are flushed.
void error_among_sends(Bench& bench) {
  constexpr std::uint32_t sends = 8, receives = 16;
  Connected& qp = bench.rc({.receives = receives});
  for (std::uint32_t i = 0; i < sends; ++i)
    bench >> qp.send_only(psn(static_cast<std::int32_t>(i)), pattern_bytes(8, static_cast<std::uint8_t>(16 * i)));
  qp.modify({{"state", "err"}});
  const auto completions = bench.take(qp.cq.poll(receives, bench.answer_time()), "poll for completions");
  std::uint64_t executed = 0;
  for (const peer::Completion& completion : completions) {
    if (!completion.good()) continue;
    bench.require(completion.wr_id == executed, "receives in their order, the executed ones first",
                  fmt::format("receive {} after {} executed ones", completion.wr_id, executed));
    qp.received(executed, pattern_bytes(8, static_cast<std::uint8_t>(16 * executed)));
    ++executed;
  }
  bench.require(completions.size() == receives, fmt::format("{} completions", receives),
                fmt::format("{}", completions.size()));
  bench.require(executed <= sends, fmt::format("at most {} receives used", sends), fmt::format("{}", executed));
  qp.completes_nothing();
}

// A QP with a shared receive queue that enters ERR reports that it has consumed its last receive. o11-5.2.5
void last_wqe_by_a_modify(Bench& bench) {
  Connected& qp = bench.rc({.receives = 2, .shared_receives = true});
  bench >> qp.send_only(psn(+0));
  bench << ack(psn(+0)).msn(1);
  qp.completes(0);
  qp.modify({{"state", "err"}});
  bench.tells("qp_last_wqe_reached", "qp", qp.qp.handle());
}
void last_wqe_by_an_error(Bench& bench) {
  Connected& qp = bench.rc({.receives = 2, .shared_receives = true});
  bench >> qp.read(psn(+0), with_key(qp.at(0, 8), unused_key));
  bench << nak_remote_access(psn(+0));
  bench.tells("qp_last_wqe_reached", "qp", qp.qp.handle());
}

// The same after a rejected request: the receive that it uses fails, and the others are flushed.
void error_of_a_send(Bench& bench) {
  Connected& qp = bench.rc({.receives = 4, .receive_bytes = 64});
  bench >> qp.send_only(psn(+0)) >> qp.send_only(psn(+1), pattern_bytes(65));
  qp.completes(0);
  qp.fails(1);
  qp.flushes(2, 3);
  qp.completes_nothing();
}

}  // namespace

std::span<const Case> all() {
  static constexpr Case list[] = {
      {.rule = "rc.responder.access.asynchronous-event", .variant = "key", .run = event_of_a_wrong_key},
      {.rule = "rc.responder.access.asynchronous-event", .variant = "range", .run = event_of_a_range},
      {.rule = "rc.responder.access.receive-completes-in-error", .variant = "SEND", .run = receive_reports_a_long_send},
      {.rule = "rc.responder.access.receive-completes-in-error",
       .variant = "WRITE with immediate",
       .run = receive_reports_a_wrong_key},
      {.rule = "rc.responder.invalidate.takes-effect",
       .variant = "Only",
       .needs = Need::memory_windows,
       .run = invalidated_by_an_only},
      {.rule = "rc.responder.invalidate.takes-effect",
       .variant = "Last",
       .needs = Need::memory_windows,
       .run = invalidated_by_a_last},
      {.rule = "rc.responder.invalidate.refused",
       .variant = "region of reg_mr",
       .run = registered_region_not_invalidated},
      {.rule = "rc.responder.invalidate.refused", .variant = "unused key", .run = unused_key_not_invalidated},
      {.rule = "rc.responder.invalidate.refused",
       .variant = "region with a window",
       .needs = Need::memory_windows,
       .run = region_with_a_window_not_invalidated},
      {.rule = "rc.responder.solicited.event", .variant = "SEND Only", .run = solicited_by_an_only},
      {.rule = "rc.responder.solicited.event", .variant = "SEND Last", .run = solicited_by_a_last},
      {.rule = "rc.responder.solicited.event", .variant = "WRITE with immediate", .run = solicited_by_a_write},
      {.rule = "rc.responder.solicited.event", .variant = "no SE", .run = unsolicited_by_an_only},
      {.rule = "rc.responder.solicited.event", .variant = "SE on First", .run = unsolicited_by_a_first},
      {.rule = "rc.responder.state.ready-to-receive", .variant = "SEND", .run = ready_to_receive},
      {.rule = "rc.responder.state.ready-to-receive", .variant = "READ, WRITE", .run = read_while_ready_to_receive},
      {.rule = "rc.responder.state.not-ready-dropped", .variant = "RESET", .run = in_reset},
      {.rule = "rc.responder.state.not-ready-dropped", .variant = "INIT", .run = in_init},
      {.rule = "rc.responder.state.not-ready-dropped", .variant = "ERR", .run = in_error},
      {.rule = "rc.responder.state.error-uses-one-receive", .variant = "ERR requested", .run = error_among_sends},
      {.rule = "rc.responder.state.error-uses-one-receive", .variant = "SEND rejected", .run = error_of_a_send},
      {.rule = "rc.responder.state.last-wqe-reached",
       .variant = "ERR requested",
       .needs = Need::shared_receive_queues,
       .run = last_wqe_by_a_modify},
      {.rule = "rc.responder.state.last-wqe-reached",
       .variant = "an error",
       .needs = Need::shared_receive_queues,
       .run = last_wqe_by_an_error},
  };
  return list;
}

}  // namespace rdmawire::conformance::rc_responder_events_cases
