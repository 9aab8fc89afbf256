/// Timeouts and retries of the CM: IBTA vol 1, 12.7.27 (Max CM Retries), 12.6.6 (MRA), 12.6.7 (REJ).

#include <fmt/format.h>

#include <algorithm>

#include "conformance/cases/connection_manager.hpp"
#include "conformance/cases/files.hpp"

namespace rdmawire::conformance::connection_manager_timeouts_cases {
namespace {

constexpr std::uint8_t of_req = 0;  // an MRA acknowledges the REQ
constexpr std::uint16_t timeout = 4;
constexpr double margin = 0.98;  // tolerance between the clocks of tester and device

std::int64_t nearly(std::int64_t time) { return static_cast<std::int64_t>(static_cast<double>(time) * margin); }

/// The response timeout and the number of retries that a REQ announces.
struct Announced {
  std::int64_t wait = 0;
  std::uint32_t retries = 0;
};
Announced announced_by(const Seen& req) {
  const auto header = *req.stack.get<CmReq>();
  return {cm_time(header.get<"remote_cm_response_timeout">()), header.get<"max_cm_retries">()};
}

/// Checks that the same REQ is retried, no earlier than announced. The upper bound is unspecified because it includes
/// network delays, so the tester waits four times as long.
Seen expect_retry(Bench& bench, const Seen& before) {
  const Announced announced = announced_by(before);
  const std::int64_t until = bench.now() + 4 * announced.wait;
  const auto first = *before.stack.get<CmReq>();
  std::optional<Seen> seen;
  do seen = bench.next(std::max<std::int64_t>(until - bench.now(), 1));
  while (seen && !seen->stack.get<CmReq>());
  const auto again = seen ? seen->stack.get<CmReq>() : std::nullopt;
  const bool same = again && again->get<"local_comm_id">() == first.get<"local_comm_id">() &&
                    again->get<"service_id">() == first.get<"service_id">() &&
                    seen->stack.get<Mad>()->get<"transaction_id">() == before.stack.get<Mad>()->get<"transaction_id">();
  bench.require(same, "a retry of the REQ with the same IDs", seen ? seen->text() : "no message");
  bench.no_sooner(before.time, seen->time, nearly(announced.wait), "retry of the REQ");
  return *seen;
}
void repeated_twice(Bench& bench) {
  TesterCm cm(bench);
  peer::CmConnection connection = cm.device_connects();
  const Seen first = cm.hears<CmReq>();
  expect_retry(bench, expect_retry(bench, first));
  bench >> cm.rep();
  cm.hears<CmRtu>();
  cm.expect_event(connection, "established");
  cm.ends(connection);
}
// The REQ is retried the announced number of times, and then the application is notified.
void until_the_end(Bench& bench) {
  TesterCm cm(bench);
  const peer::CmConnection connection = cm.device_connects();
  Seen seen = cm.hears<CmReq>();
  const Announced announced = announced_by(seen);
  std::int64_t spacing = 0;
  for (std::uint32_t retry = 0; retry < announced.retries; ++retry) {
    Seen again = expect_retry(bench, seen);
    spacing = again.time - seen.time;
    seen = std::move(again);
  }
  const std::int64_t until = bench.now() + spacing + spacing / 2;
  while (const auto more = bench.next(std::max<std::int64_t>(until - bench.now(), 1)))
    bench.require(!more->stack.get<CmReq>(), "no REQ beyond Max CM Retries", more->text());
  const peer::CmEvent event = cm.expect_event(connection, "unreachable", 4 * announced.wait);
  bench.require(event.name == "ETIMEDOUT", "unreachable, ETIMEDOUT", event.body.dump());
  while (const auto late = bench.next(bench.patience().silence))
    bench.require(!late->stack.get<CmReq>(), fmt::format("{} REQs", announced.retries + 1), "one more");
}

// 12.6.6: after an MRA instead of the REP, the REQ is not retried before the MRA's time has elapsed.
void waits_for_the_time_of_the_mra(Bench& bench) {
  TesterCm cm(bench);
  peer::CmConnection connection = cm.device_connects();
  const Seen req = cm.hears<CmReq>();
  const std::uint8_t longer = req.stack.get<CmReq>()->get<"remote_cm_response_timeout">() + 1;
  if (longer > 21) end_case(Verdict::inconclusive, "the device's own timeout exceeds 8 s");
  bench >> cm.mra(of_req, longer);
  cm.expect_silence(nearly(cm_time(longer)));
  bench >> cm.rep();
  cm.hears<CmRtu>();
  cm.expect_event(connection, "established");
  cm.ends(connection);
}

// 12.7.34: the QP of the passive side uses the local ACK timeout of the REQ.
void the_timeout_is_that_of_the_req(Bench& bench) {
  constexpr std::uint8_t code = 17;  // 537 ms
  TesterCm cm(bench);
  const peer::Listener listener = cm.device_listens();
  bench >> cm.req(listener.port()).with<CmReq, "primary_local_ack_timeout">(code, "local ACK timeout 537 ms");
  peer::CmConnection connection = cm.requested(listener);
  bench.take(connection.accept(cm.qp.qp), "the device's application accepts");
  cm.hears<CmRep>();
  bench >> cm.rtu();
  cm.expect_event(connection, "established");
  cm.qp.device_sends(0);
  const Seen first = bench.wait(a_send(psn(+0)));
  const Seen again = bench.wait(a_send(psn(+0)));
  bench.no_sooner(first.time, again.time, nearly(cm_time(code)), "retransmission of the SEND");
  bench >> cm.qp.ack(psn(+0), 1);
  cm.qp.completes(0);
  cm.ends(connection);
}

// When the application gives up, the device sends a REJ for the timeout, with remote ID 0 unless an MRA contained the
// ID.
void gives_up(Bench& bench, bool has_mra) {
  TesterCm cm(bench);
  peer::CmConnection connection = cm.device_connects();
  cm.hears<CmReq>();
  if (has_mra) bench >> cm.mra(of_req, 20);
  bench.pass(bench.patience().silence);
  bench.take(connection.release(), "the device's application releases the connection");
  const std::uint32_t expected = has_mra ? cm.local_id() : 0;
  cm.hears<CmRej>(fmt::format("reason 4 (timeout), remote ID {:#x}", expected), [&](const View<CmRej>& rej) {
    return rej.get<"reason">() == timeout && rej.get<"remote_comm_id">() == expected &&
           rej.get<"local_comm_id">() == cm.remote_id();
  });
}
void gives_up_without_an_answer(Bench& bench) { gives_up(bench, false); }
void gives_up_after_an_mra(Bench& bench) { gives_up(bench, true); }

}  // namespace

std::span<const Case> all() {
  constexpr Role verbs = Role::verbs;
  constexpr Need manager = Need::connection_manager;
  static constexpr Case list[] = {
      {.rule = "cm.active-side.request.retries",
       .variant = "retry of the same REQ",
       .role = verbs,
       .needs = manager,
       .run = repeated_twice},
      {.rule = "cm.active-side.request.retries",
       .variant = "Max CM Retries",
       .role = verbs,
       .needs = manager,
       .run = until_the_end,
       .caution = RunPolicy::slow},
      {.rule = "cm.active-side.mra.extends-timeout",
       .role = verbs,
       .needs = manager,
       .run = waits_for_the_time_of_the_mra},
      {.rule = "cm.endpoint.timeout.as-announced",
       .variant = "the tester requests",
       .role = verbs,
       .needs = manager,
       .run = the_timeout_is_that_of_the_req},
      {.rule = "cm.active-side.reject.remote-id",
       .variant = "no MRA",
       .role = verbs,
       .needs = manager,
       .run = gives_up_without_an_answer},
      {.rule = "cm.active-side.reject.remote-id",
       .variant = "an MRA",
       .role = verbs,
       .needs = manager,
       .run = gives_up_after_an_mra},
  };
  return list;
}

}  // namespace rdmawire::conformance::connection_manager_timeouts_cases
