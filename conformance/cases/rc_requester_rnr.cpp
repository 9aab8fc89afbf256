/// Handling of RNR NAKs by the requester: IBTA vol 1, 9.7.5.2.8 with Table 45 (timer), 9.7.5.1.2 (acknowledged
/// requests), and the RNR retry counter (clause numbers not verified).

#include <fmt/format.h>

#include "conformance/cases/files.hpp"

namespace rdmawire::conformance::rc_requester_rnr_cases {
namespace {

constexpr std::uint8_t patient = 20;        ///< a timeout of 4.3 s. Earlier retransmissions have another cause
constexpr std::uint8_t shortest_timer = 1;  ///< 0.01 ms

// Table 45: no retransmission before the time of the timer code.
void timer(Bench& bench, std::uint8_t code, std::int64_t microseconds) {
  Connected& qp = bench.rc({.timeout = patient});
  qp.device_sends(0);
  bench << a_send(psn(+0));
  const std::int64_t before = bench.now();
  bench >> qp.rnr_nak(code, psn(+0), 0);
  const Seen again = bench.wait(a_send(psn(+0)));
  bench.no_sooner(before, again.time, microseconds * 1000, fmt::format("retransmitted after RNR timer code {}", code));
  bench >> qp.ack(psn(+0), 1);
  qp.completes(0);
}
void code_1(Bench& bench) { timer(bench, 1, 10); }
void code_14(Bench& bench) { timer(bench, 14, 1'280); }
void code_22(Bench& bench) { timer(bench, 22, 20'480); }
void code_25(Bench& bench) { timer(bench, 25, 61'440); }
void code_31(Bench& bench) { timer(bench, 31, 491'520); }
void code_0(Bench& bench) { timer(bench, 0, 655'360); }

// The ACK timeout does not shorten the RNR timer.
void the_ack_timeout_does_not_shorten_it(Bench& bench) {
  Connected& qp = bench.rc({.timeout = 14});
  qp.device_sends(0);
  bench << a_send(psn(+0));
  const std::int64_t before = bench.now();
  bench >> qp.rnr_nak(29, psn(+0), 0);
  const Seen again = bench.wait(a_send(psn(+0)));
  bench.no_sooner(before, again.time, 245'760'000, "retransmitted after RNR timer code 29");
}

// The requester retries n times for a count of n, and then fails with the RNR-retry-exceeded error.
void retries(Bench& bench, std::uint8_t count) {
  Connected& qp = bench.rc({.timeout = patient, .rnr_retry = count});
  qp.device_sends(0);
  for (int i = 0; i <= count; ++i) {
    bench << a_send(psn(+0));
    bench >> qp.rnr_nak(shortest_timer, psn(+0), 0);
  }
  qp.completes(0, "rnr_retry_exc_err");
  bench << silence();
  qp.is_in("err");
}
void no_retry(Bench& bench) { retries(bench, 0); }
void one_retry(Bench& bench) { retries(bench, 1); }
void six_retries(Bench& bench) { retries(bench, 6); }

// An acknowledgement reloads the RNR retry counter.
void the_counter_reloads(Bench& bench) {
  Connected& qp = bench.rc({.timeout = patient, .rnr_retry = 1});
  for (std::uint64_t i = 0; i < 2; ++i) {
    const psn at(static_cast<std::int32_t>(i));
    qp.device_sends(i);
    bench << a_send(at);
    bench >> qp.rnr_nak(shortest_timer, at, static_cast<std::uint32_t>(i));
    bench << a_send(at);
    bench >> qp.ack(at, static_cast<std::uint32_t>(i + 1));
    qp.completes(i);
  }
}

// A count of 7 means infinite retries.
void seven_is_for_ever(Bench& bench) {
  Connected& qp = bench.rc({.timeout = patient, .rnr_retry = 7});
  qp.device_sends(0);
  for (int i = 0; i < 12; ++i) {
    bench << a_send(psn(+0));
    bench >> qp.rnr_nak(shortest_timer, psn(+0), 0);
  }
  bench << a_send(psn(+0));
  bench >> qp.ack(psn(+0), 1);
  qp.completes(0);
}

// 9.7.5.1.2: any response acknowledges the earlier requests.
void what_was_before_is_acknowledged(Bench& bench) {
  Connected& qp = bench.rc({.timeout = patient});
  qp.device_sends(0);
  qp.device_sends(1);
  bench << a_send(psn(+0)) << a_send(psn(+1));
  bench >> qp.rnr_nak(shortest_timer, psn(+1), 1);
  bench << a_send(psn(+1));
  qp.completes(0);
  bench >> qp.ack(psn(+1), 2);
  qp.completes(1);
}

}  // namespace

std::span<const Case> all() {
  constexpr Role requester = Role::requester;
  static constexpr Case list[] = {
      {.rule = "rc.requester.rnr.timer-kept", .variant = "code 1", .role = requester, .run = code_1},
      {.rule = "rc.requester.rnr.timer-kept", .variant = "code 14", .role = requester, .run = code_14},
      {.rule = "rc.requester.rnr.timer-kept", .variant = "code 22", .role = requester, .run = code_22},
      {.rule = "rc.requester.rnr.timer-kept", .variant = "code 25", .role = requester, .run = code_25},
      {.rule = "rc.requester.rnr.timer-kept", .variant = "code 31", .role = requester, .run = code_31},
      {.rule = "rc.requester.rnr.timer-kept", .variant = "code 0", .role = requester, .run = code_0},
      {.rule = "rc.requester.rnr.timer-kept",
       .variant = "a shorter ACK timeout",
       .role = requester,
       .run = the_ack_timeout_does_not_shorten_it},
      {.rule = "rc.requester.rnr.retry-count", .variant = "0", .role = requester, .run = no_retry},
      {.rule = "rc.requester.rnr.retry-count", .variant = "1", .role = requester, .run = one_retry},
      {.rule = "rc.requester.rnr.retry-count", .variant = "6", .role = requester, .run = six_retries},
      {.rule = "rc.requester.rnr.retry-count",
       .variant = "progress in between",
       .role = requester,
       .run = the_counter_reloads},
      {.rule = "rc.requester.rnr.seven-is-for-ever", .role = requester, .run = seven_is_for_ever},
      {.rule = "rc.requester.rnr.acknowledges-before", .role = requester, .run = what_was_before_is_acknowledged},
  };
  return list;
}

}  // namespace rdmawire::conformance::rc_requester_rnr_cases
