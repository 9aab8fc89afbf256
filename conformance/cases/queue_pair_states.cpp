/// Queue pair states and completion queues: IBTA vol 1, 10.3.1 (states), 11.2.4.2 with Table 91 (modify), 10.8.2
/// (posting), 10.10.2.2 and C9-220 (flushing), 11.4.2.2 with C11-31, C11-32 (notification), 12.9.7.1 (INIT).

#include <fmt/format.h>

#include <algorithm>

#include "conformance/cases/files.hpp"
#include "conformance/cases/path_mtu.hpp"

namespace rdmawire::conformance::queue_pair_states_cases {
namespace {

using nlohmann::json;

constexpr std::uint8_t patient = 20;  ///< a timeout of 4.3 s

/// Moves a new QP to this state by legal transitions.
Connected& in_state(Bench& bench, const std::string& state) {
  const std::string on_the_way = state == "sqd" || state == "err" ? "rts" : state;
  Connected& qp = bench.rc({.timeout = patient, .state = "reset"});
  qp.bring_to(on_the_way);
  if (state != on_the_way) qp.modify({{"state", state}});
  return qp;
}

// Table 91: RESET to INIT, INIT to RTR, RTR to RTS, RTS and SQD to each other, some states to themselves, and every
// state to RESET and ERR. All other transitions are illegal.
void transitions_from(Bench& bench, const std::string& from, const std::vector<std::string>& legal) {
  for (const std::string to : {"reset", "init", "rtr", "rts", "sqd", "sqe", "err"}) {
    Connected& qp = in_state(bench, from);
    const bool allowed = std::find(legal.begin(), legal.end(), to) != legal.end();
    // Readings differ on RESET to ERR: Linux's table has no such transition.
    if (from == "reset" && to == "err") continue;
    // Pass the attributes of the transition from the usual preceding state. Otherwise pass only the state.
    const bool usual =
        (from == "reset" && to == "init") || (from == "init" && to == "rtr") || (from == "rtr" && to == "rts");
    const auto done = qp.qp.modify(allowed && !usual ? json{{"state", to}} : qp.attributes_to(to));
    const std::string what = fmt::format("{} to {}", from, to);
    bench.require(done.has_value() == allowed, what + (allowed ? " is done" : " is refused"),
                  done ? "it was done" : done.error().message);
  }
}
void from_reset(Bench& bench) { transitions_from(bench, "reset", {"reset", "init", "err"}); }
void from_init(Bench& bench) { transitions_from(bench, "init", {"reset", "init", "rtr", "err"}); }
void from_rtr(Bench& bench) { transitions_from(bench, "rtr", {"reset", "rts", "err"}); }
void from_rts(Bench& bench) { transitions_from(bench, "rts", {"reset", "rts", "sqd", "err"}); }
void from_sqd(Bench& bench) { transitions_from(bench, "sqd", {"reset", "rts", "sqd", "err"}); }
void from_err(Bench& bench) { transitions_from(bench, "err", {"reset", "err"}); }

// Table 91: the required attributes of a transition.
void required(Bench& bench, const std::string& from, const std::string& to) {
  const json all = in_state(bench, from).attributes_to(to);
  std::vector<std::string> names;
  for (const auto& [name, value] : all.items())
    if (name != "state") names.push_back(name);
  for (const std::string& name : names) {
    Connected& qp = in_state(bench, from);
    json attributes = qp.attributes_to(to);
    attributes.erase(name);
    bench.is_refused(qp.qp.modify(attributes), fmt::format("{} to {} without {}", from, to, name));
  }
}
void required_for_init(Bench& bench) { required(bench, "reset", "init"); }
void required_for_rtr(Bench& bench) { required(bench, "init", "rtr"); }
void required_for_rts(Bench& bench) { required(bench, "rtr", "rts"); }
void required_for_rts_of_uc(Bench& bench) {
  Connected& qp = bench.uc({.state = "rtr"});
  bench.is_refused(qp.qp.modify({{"state", "rts"}}), "rtr to rts of UC without sq_psn");
}
void required_for_rtr_of_uc(Bench& bench) {
  Connected& qp = bench.uc({.state = "init"});
  const json all = qp.attributes_to("rtr");
  for (const char* name : {"ah_attr", "path_mtu", "dest_qp_num", "rq_psn"}) {
    json attributes = all;
    attributes.erase(name);
    bench.is_refused(qp.qp.modify(attributes), fmt::format("init to rtr of UC without {}", name));
  }
}
void required_for_rts_of_ud(Bench& bench) {
  Connected& qp = bench.ud({.state = "rtr"});
  bench.is_refused(qp.qp.modify({{"state", "rts"}}), "rtr to rts of UD without sq_psn");
}
void required_of_ud(Bench& bench) {
  Connected& qp = bench.ud({.state = "reset"});
  json attributes = qp.attributes_to("init");
  attributes.erase("qkey");
  bench.is_refused(qp.qp.modify(attributes), "reset to init of UD without qkey");
}

// C10-96: posting a send before RTS fails.
void post_send_in(Bench& bench, const std::string& state) {
  Connected& qp = in_state(bench, state);
  bench.is_refused(qp.qp.post_send({{.opcode = "send", .wr_id = 0, .sges = {qp.piece(0, 8)}}}),
                   fmt::format("posting a send in {}", state));
  bench << silence();
}
void post_send_in_reset(Bench& bench) { post_send_in(bench, "reset"); }
void post_send_in_init(Bench& bench) { post_send_in(bench, "init"); }
void post_send_in_rtr(Bench& bench) { post_send_in(bench, "rtr"); }
void post_receive_in_reset(Bench& bench) {
  Connected& qp = in_state(bench, "reset");
  bench.is_refused(qp.qp.post_recv({{0, {qp.inbox.piece(0, 64)}}}), "posting a receive in reset");
}

// C10-42: in ERR, a work request is accepted and flushed.
void post_send_in_error(Bench& bench) {
  Connected& qp = in_state(bench, "err");
  qp.device_sends(0);
  qp.device_writes(1);
  qp.flushes(0, 1);
  bench << silence();
}
void post_receive_in_error(Bench& bench) {
  Connected& qp = in_state(bench, "err");
  qp.post_receives(2);
  qp.flushes(0, 1);
}

// C9-220: all outstanding work requests complete once, in order, as flushed.
void sends_are_flushed(Bench& bench) {
  Connected& qp = bench.rc({.timeout = patient});
  qp.device_sends(0);
  qp.device_writes(1);
  qp.device_reads(2);
  bench << a_send(psn(+0)) << a_write(psn(+1)) << a_read(psn(+2), 8, tester_memory);
  qp.modify({{"state", "err"}});
  qp.flushes(0, 2);
  qp.completes_nothing();
}
void receives_are_flushed(Bench& bench) {
  Connected& qp = bench.rc({.receives = 3, .timeout = patient});
  qp.modify({{"state", "err"}});
  qp.flushes(0, 2);
  qp.completes_nothing();
}
void what_is_done_is_not_flushed(Bench& bench) {
  Connected& qp = bench.rc({.timeout = patient});
  qp.device_sends(0);
  qp.device_sends(1);
  bench << a_send(psn(+0)) << a_send(psn(+1));
  bench >> qp.ack(psn(+0), 1);
  qp.completes(0);
  qp.modify({{"state", "err"}});
  qp.flushes(1, 1);
}

// 10.3.1.5: in SQD, started messages are finished, the event is raised, and no further message starts.
void drained(Bench& bench) {
  Connected& qp = bench.rc({.mtu = small_packets, .timeout = patient});
  qp.device_sends(0, {.length = qp.mtu + 144});
  bench << a_send(psn(+0), Position::first) << a_send(psn(+1), Position::last);
  qp.modify({{"state", "sqd"}, {"sqd_async_notify", true}});
  qp.device_sends(1);
  bench << silence();
  bench >> qp.ack(psn(+1), 1);
  qp.completes(0);
  bench.tells("sq_drained", "qp", qp.qp.handle());
  bench << silence();
  qp.modify({{"state", "rts"}});
  bench << a_send(psn(+2));
}
void drained_when_empty(Bench& bench) {
  Connected& qp = bench.rc({.timeout = patient});
  qp.modify({{"state", "sqd"}, {"sqd_async_notify", true}});
  bench.tells("sq_drained", "qp", qp.qp.handle());
}
void receives_in_sqd(Bench& bench) {
  Connected& qp = bench.rc({.receives = 1, .timeout = patient});
  qp.modify({{"state", "sqd"}});
  bench >> qp.send_only(psn(+0));
  bench << acknowledged(psn(+0));
  qp.completes(0);
}

// A local error of a send stops only the send queue of UC and UD: the QP enters SQE, still receives, and can return to
// RTS.
void stopped_send_queue(Connected& qp, const std::function<void()>& receive) {
  qp.is_in("sqe");
  receive();
  qp.modify({{"state", "rts"}});
  qp.is_in("rts");
}
void send_error_of_uc(Bench& bench) {
  Connected& qp = bench.uc({.receives = 1});
  qp.post({.opcode = "send", .wr_id = 7, .sges = {{.addr = qp.region.addr(), .length = 8, .lkey = 0xdead00}}});
  qp.fails(7);
  stopped_send_queue(qp, [&] {
    bench >> qp.send_only(psn(+0)).without_ack_request();
    qp.completes(0);
  });
}

void send_error_of_ud(Bench& bench) {
  Connected& qp = bench.ud({.receives = 1});
  const peer::AddressHandle ah = qp.address_handle_of_tester();
  qp.post({.opcode = "send",
           .wr_id = 7,
           .sges = {{.addr = qp.region.addr(), .length = 8, .lkey = 0xdead00}},
           .ah = &ah,
           .remote_qpn = qp.tester_qpn,
           .remote_qkey = qp.options.qkey});
  qp.fails(7);
  stopped_send_queue(qp, [&] {
    bench >> qp.datagram(psn(+0), qp.options.qkey);
    qp.completes(0);
  });
}

// In ERR and RESET, the QP sends no packets, including retransmissions.
void quiet_after(Bench& bench, const std::string& state) {
  Connected& qp = bench.rc({.receives = 1, .timeout = 13});
  qp.device_sends(0);
  bench << a_send(psn(+0));
  qp.modify({{"state", state}});
  bench.pass(bench.patience().silence);
  bench.all_until_silence();  // packets in flight
  bench << silence(150'000'000);
  bench >> qp.send_only(psn(+0));
  bench << silence();
}
void quiet_after_error(Bench& bench) { quiet_after(bench, "err"); }
void quiet_after_reset(Bench& bench) { quiet_after(bench, "reset"); }
void what_waits_is_never_sent(Bench& bench) {
  Connected& qp = bench.rc();
  qp.modify({{"state", "sqd"}});
  qp.device_sends(0);
  bench << silence();
  qp.modify({{"state", "err"}});
  qp.completes(0, "wr_flush_err");
  bench << silence(150'000'000);
}

// A reset QP starts with the given PSNs and MSN 0. Late packets of the previous connection have no effect.
void reset_is_a_fresh_start(Bench& bench) {
  Connected& qp = bench.rc({.receives = 1, .timeout = patient});
  bench >> qp.send_only(psn(+0));
  bench << ack(psn(+0)).msn(1);
  qp.completes(0);
  qp.device_sends(5);
  bench << a_send(psn(+0));
  qp.modify({{"state", "reset"}});
  qp.bring_to("rts");
  qp.post_receives(1);
  bench >> qp.ack(psn(+0), 1);  // of the previous connection
  qp.completes_nothing();
  bench >> qp.send_only(psn(+0));
  bench << ack(psn(+0)).msn(1);
  qp.completes(1);
  qp.device_sends(6);
  bench << a_send(psn(+0));
  bench >> qp.ack(psn(+0), 1);
  qp.completes(6);
}

// C9-218: a completion queue overflow raises an event and moves its QPs to the Error state.
void completion_queue_overflow(Bench& bench) {
  Connected& other = bench.rc({.receives = 1});
  Connected& qp = bench.rc({.timeout = patient, .send_wr = 64, .completions = 1});
  const std::uint32_t holds = qp.cq.entries();
  if (holds > 60) end_case(Verdict::inconclusive, fmt::format("the smallest queue holds {} completions", holds));
  for (std::uint64_t i = 0; i <= holds + 1; ++i) qp.device_sends(i);
  bench.all_until_silence();
  bench >> qp.ack(psn(static_cast<std::int32_t>(holds + 1)), holds + 2);
  bench.tells("cq_err", "cq", qp.cq.handle());
  qp.is_in("err");
  bench >> other.send_only(psn(+0));
  bench << acknowledged(psn(+0));
}

// C11-17
void completion_queue_in_use(Bench& bench) {
  Connected& qp = bench.rc();
  bench.is_refused(bench.device().peer->call("destroy", {{"object", qp.cq.handle()}}),
                   "destroying a completion queue that has an attached QP");
}

// C11-31, C11-32: one event for the next completion, or the next solicited one. A completion in error is solicited.
void notified_of_the_next(Bench& bench) {
  Connected& qp = bench.rc({.receives = 2, .notifies = true});
  qp.ask_for_notification(false);
  bench >> qp.send_only(psn(+0));
  bench << acknowledged(psn(+0));
  qp.is_notified(true);
  bench >> qp.send_only(psn(+1));
  bench << acknowledged(psn(+1));
  qp.is_notified(false);  // one notification for each request
}
void notified_of_solicited(Bench& bench) {
  Connected& qp = bench.rc({.receives = 2, .notifies = true});
  qp.ask_for_notification(true);
  bench >> qp.send_only(psn(+0));
  bench << acknowledged(psn(+0));
  qp.is_notified(false);
  bench >> qp.send_only(psn(+1)).solicited();
  bench << acknowledged(psn(+1));
  qp.is_notified(true);
}
void notified_of_an_error(Bench& bench) {
  Connected& qp = bench.rc({.timeout = patient, .notifies = true});
  qp.ask_for_notification(true);
  qp.device_sends(0);
  bench << a_send(psn(+0));
  bench >> qp.nak(nak_code::remote_operational_error, psn(+0), 0);
  qp.is_notified(true);
  qp.completes(0, "rem_op_err");
}

// 12.9.7.1: in INIT, receives can be posted, and no packet is accepted.
void nothing_accepted_in_init(Bench& bench) {
  Connected& qp = bench.rc({.receives = 1, .state = "init"});
  bench >> qp.send_only(psn(+0));
  bench << silence();
  qp.completes_nothing();
  qp.modify(qp.attributes_to("rtr"));
  bench >> qp.send_only(psn(+0));
  bench << ack(psn(+0)).msn(1);
  qp.completes(0);
}

}  // namespace

std::span<const Case> all() {
  constexpr Role verbs = Role::verbs;
  static constexpr Case list[] = {
      {.rule = "qp.verbs.modify.legal-transitions", .variant = "from RESET", .role = verbs, .run = from_reset},
      {.rule = "qp.verbs.modify.legal-transitions", .variant = "from INIT", .role = verbs, .run = from_init},
      {.rule = "qp.verbs.modify.legal-transitions", .variant = "from RTR", .role = verbs, .run = from_rtr},
      {.rule = "qp.verbs.modify.legal-transitions", .variant = "from RTS", .role = verbs, .run = from_rts},
      {.rule = "qp.verbs.modify.legal-transitions", .variant = "from SQD", .role = verbs, .run = from_sqd},
      {.rule = "qp.verbs.modify.legal-transitions", .variant = "from ERR", .role = verbs, .run = from_err},
      {.rule = "qp.verbs.modify.required-attributes",
       .variant = "RESET to INIT",
       .role = verbs,
       .run = required_for_init},
      {.rule = "qp.verbs.modify.required-attributes", .variant = "INIT to RTR", .role = verbs, .run = required_for_rtr},
      {.rule = "qp.verbs.modify.required-attributes", .variant = "RTR to RTS", .role = verbs, .run = required_for_rts},
      {.rule = "qp.verbs.modify.required-attributes",
       .variant = "RTR to RTS, UC",
       .role = verbs,
       .needs = Need::uc,
       .run = required_for_rts_of_uc},
      {.rule = "qp.verbs.modify.required-attributes",
       .variant = "INIT to RTR, UC",
       .role = verbs,
       .needs = Need::uc,
       .run = required_for_rtr_of_uc},
      {.rule = "qp.verbs.modify.required-attributes",
       .variant = "RTR to RTS, UD",
       .role = verbs,
       .needs = Need::ud,
       .run = required_for_rts_of_ud},
      {.rule = "qp.verbs.modify.required-attributes",
       .variant = "RESET to INIT, UD",
       .role = verbs,
       .needs = Need::ud,
       .run = required_of_ud},
      {.rule = "qp.verbs.post-send.before-rts", .variant = "RESET", .role = verbs, .run = post_send_in_reset},
      {.rule = "qp.verbs.post-send.before-rts", .variant = "INIT", .role = verbs, .run = post_send_in_init},
      {.rule = "qp.verbs.post-send.before-rts", .variant = "RTR", .role = verbs, .run = post_send_in_rtr},
      {.rule = "qp.verbs.post-receive.in-reset", .role = verbs, .run = post_receive_in_reset},
      {.rule = "qp.verbs.post.in-error-flushed", .variant = "sends", .role = verbs, .run = post_send_in_error},
      {.rule = "qp.verbs.post.in-error-flushed", .variant = "receives", .role = verbs, .run = post_receive_in_error},
      {.rule = "qp.verbs.error.all-flushed", .variant = "sends", .role = verbs, .run = sends_are_flushed},
      {.rule = "qp.verbs.error.all-flushed", .variant = "receives", .role = verbs, .run = receives_are_flushed},
      {.rule = "qp.verbs.error.all-flushed",
       .variant = "completed requests not flushed",
       .role = verbs,
       .run = what_is_done_is_not_flushed},
      {.rule = "qp.sender.drain.then-quiet", .variant = "message in progress", .role = verbs, .run = drained},
      {.rule = "qp.sender.drain.then-quiet",
       .variant = "no requests outstanding",
       .role = verbs,
       .run = drained_when_empty},
      {.rule = "qp.sender.drain.then-quiet", .variant = "still receives", .role = verbs, .run = receives_in_sqd},
      {.rule = "qp.verbs.send-error.receives-on",
       .variant = "UC",
       .role = verbs,
       .needs = Need::uc,
       .run = send_error_of_uc},
      {.rule = "qp.verbs.send-error.receives-on",
       .variant = "UD",
       .role = verbs,
       .needs = Need::ud,
       .run = send_error_of_ud},
      {.rule = "qp.sender.state.quiet-after-error", .variant = "ERR", .role = verbs, .run = quiet_after_error},
      {.rule = "qp.sender.state.quiet-after-error",
       .variant = "waiting request",
       .role = verbs,
       .run = what_waits_is_never_sent},
      {.rule = "qp.sender.state.quiet-after-error", .variant = "RESET", .role = verbs, .run = quiet_after_reset},
      {.rule = "qp.endpoint.reset.fresh-start", .role = verbs, .run = reset_is_a_fresh_start},
      {.rule = "qp.verbs.cq.overflow", .role = verbs, .run = completion_queue_overflow},
      {.rule = "qp.verbs.cq.destroy-in-use", .role = verbs, .run = completion_queue_in_use},
      {.rule = "qp.verbs.cq.notification", .variant = "next", .role = verbs, .run = notified_of_the_next},
      {.rule = "qp.verbs.cq.notification", .variant = "solicited", .role = verbs, .run = notified_of_solicited},
      {.rule = "qp.verbs.cq.notification",
       .variant = "completion in error",
       .role = verbs,
       .run = notified_of_an_error},
      {.rule = "qp.receiver.init.nothing-accepted", .role = verbs, .run = nothing_accepted_in_init},
  };
  return list;
}

}  // namespace rdmawire::conformance::queue_pair_states_cases
