/// Retransmissions of the requester: IBTA vol 1, 9.7.5.2 (NAK and retry, clause numbers not verified), 9.7.6 and
/// C9-140 to C9-142 (local ACK timeout, retry counter).

#include <fmt/format.h>

#include "conformance/cases/files.hpp"
#include "conformance/cases/path_mtu.hpp"

namespace rdmawire::conformance::rc_requester_retry_cases {
namespace {

constexpr std::uint8_t patient = 20;  ///< a timeout of 4.3 s. Earlier retransmissions have another cause

/// A SEND of three packets, which have been sent.
Connected& three_packets_sent(Bench& bench, std::int64_t first = -1) {
  Connected& qp = bench.rc({.mtu = small_packets, .timeout = patient, .device_psn = first});
  qp.fill(0, pattern_bytes(2 * qp.mtu + 188));
  qp.device_sends(0, {.length = 2 * qp.mtu + 188});
  bench << a_send(psn(+0), Position::first) << a_send(psn(+1), Position::middle) << a_send(psn(+2), Position::last);
  return qp;
}
std::string part(const Connected& qp, std::size_t index) {
  return pattern_bytes(2 * qp.mtu + 188).substr(index * qp.mtu, qp.mtu);
}

// A NAK (PSN sequence error) contains the missing PSN: all packets from there on are retransmitted.
void the_first_was_lost(Bench& bench) {
  Connected& qp = three_packets_sent(bench);
  bench >> qp.nak(nak_code::psn_sequence_error, psn(+0), 0);
  bench << a_send(psn(+0), Position::first).carrying(part(qp, 0))
        << a_send(psn(+1), Position::middle).carrying(part(qp, 1))
        << a_send(psn(+2), Position::last).carrying(part(qp, 2)) << silence();
  bench >> qp.ack(psn(+2), 1);
  qp.completes(0);
}
void the_middle_was_lost(Bench& bench) {
  Connected& qp = three_packets_sent(bench);
  bench >> qp.nak(nak_code::psn_sequence_error, psn(+1), 0);
  bench << a_send(psn(+1), Position::middle).carrying(part(qp, 1))
        << a_send(psn(+2), Position::last).carrying(part(qp, 2)) << silence();
  bench >> qp.ack(psn(+2), 1);
  qp.completes(0);
}
void the_last_was_lost(Bench& bench) {
  Connected& qp = three_packets_sent(bench);
  bench >> qp.nak(nak_code::psn_sequence_error, psn(+2), 0);
  bench << a_send(psn(+2), Position::last).carrying(part(qp, 2)) << silence();
  bench >> qp.ack(psn(+2), 1);
  qp.completes(0);
}
// The NAK acknowledges the packets before its PSN.
void a_nak_between_messages(Bench& bench) {
  Connected& qp = bench.rc({.timeout = patient});
  for (std::uint64_t i = 0; i < 3; ++i) qp.device_sends(i);
  bench << a_send(psn(+0)) << a_send(psn(+1)) << a_send(psn(+2));
  bench >> qp.nak(nak_code::psn_sequence_error, psn(+1), 1);
  bench << a_send(psn(+1)) << a_send(psn(+2)) << silence();
  qp.completes(0);
  qp.completes_nothing();
  bench >> qp.ack(psn(+2), 3);
  qp.completes(1);
  qp.completes(2);
}
// A message before a READ is retransmitted, and so is the READ.
void a_read_after_the_loss(Bench& bench) {
  Connected& qp = bench.rc({.timeout = patient});
  qp.device_writes(0);
  qp.device_reads(1, {.offset = 64});
  qp.device_sends(2);
  bench << a_write(psn(+0)) << a_read(psn(+1), 8, tester_memory) << a_send(psn(+2));
  bench >> qp.nak(nak_code::psn_sequence_error, psn(+0), 0);
  bench << a_write(psn(+0)) << a_read(psn(+1), 8, tester_memory) << a_send(psn(+2)) << silence();
}

// Three NAKs for the same loss cause one recovery.
void three_naks_for_one_loss(Bench& bench) {
  Connected& qp = three_packets_sent(bench);
  const Stimulus nak = qp.nak(nak_code::psn_sequence_error, psn(+0), 0);
  bench >> nak >> nak >> nak;
  bench << a_send(psn(+0), Position::first) << a_send(psn(+1), Position::middle) << a_send(psn(+2), Position::last)
        << silence();
  bench >> qp.ack(psn(+2), 1);
  qp.completes(0);
}

void a_loss_before_the_wrap(Bench& bench) {
  Connected& qp = three_packets_sent(bench, 0xffffff);
  bench >> qp.nak(nak_code::psn_sequence_error, psn(+0), 0);
  bench << a_send(psn(+0), Position::first) << a_send(psn(+1), Position::middle) << a_send(psn(+2), Position::last);
  bench >> qp.ack(psn(+2), 1);
  qp.completes(0);
}
void a_loss_after_the_wrap(Bench& bench) {
  Connected& qp = three_packets_sent(bench, 0xffffff);
  bench >> qp.nak(nak_code::psn_sequence_error, psn(+1), 0);
  bench << a_send(psn(+1), Position::middle) << a_send(psn(+2), Position::last);
  bench >> qp.ack(psn(+2), 1);
  qp.completes(0);
}

// C9-141: the local ACK timeout is between 4.096 us * 2^t and four times that. The upper bound can be checked only if
// tester and device share a clock.
//
// Measured over several timeouts from before the posting, so that delays do not shorten the result.
void timeout(Bench& bench, std::uint8_t code, int times) {
  Connected& qp = bench.rc({.timeout = code, .retry_cnt = 6});
  const std::int64_t one = std::int64_t{4096} << code;
  const std::int64_t before = bench.now();
  qp.device_sends(0);
  std::int64_t last = bench.wait(a_send(psn(+0))).time;
  for (int i = 0; i < times; ++i) {
    const std::int64_t again = bench.wait(a_send(psn(+0))).time;
    if (bench.patience().upper_bounds)
      bench.require(again - last <= 4 * one, "retransmitted within four times the timeout",
                    fmt::format("after {} ns", again - last));
    last = again;
  }
  bench.no_sooner(before, last, times * one, fmt::format("{} retransmissions with timeout code {}", times, code));
}
void timeout_of_17_ms(Bench& bench) { timeout(bench, 12, 5); }
void timeout_of_67_ms(Bench& bench) { timeout(bench, 14, 5); }
void timeout_of_537_ms(Bench& bench) { timeout(bench, 17, 1); }

// Each ACK with progress restarts the timeout.
void progress_starts_another_timeout(Bench& bench) {
  constexpr std::uint8_t code = 17;
  Connected& qp = bench.rc({.mtu = small_packets, .timeout = code});
  qp.device_sends(0, {.length = qp.mtu + 144});
  bench << a_send(psn(+0), Position::first) << a_send(psn(+1), Position::last);
  bench.pass((std::int64_t{4096} << code) / 2);
  const std::int64_t before = bench.now();
  bench >> qp.ack(psn(+0), 0);
  const Seen again = bench.wait(a_send(psn(+1), Position::last));
  bench.no_sooner(before, again.time, std::int64_t{4096} << code, "the rest is retransmitted");
}

// An unacknowledged request is sent 1 + n times and then fails with the retry-exceeded error.
void retries(Bench& bench, std::uint8_t count) {
  Connected& qp = bench.rc({.timeout = 12, .retry_cnt = count});
  qp.device_sends(0);
  for (int i = 0; i <= count; ++i) bench << a_send(psn(+0));
  qp.completes(0, "retry_exc_err");
  bench << silence();
  qp.is_in("err");
}
void no_retry(Bench& bench) { retries(bench, 0); }
void one_retry(Bench& bench) { retries(bench, 1); }
void seven_retries(Bench& bench) { retries(bench, 7); }
void retries_of_a_read(Bench& bench) {
  Connected& qp = bench.rc({.timeout = 12, .retry_cnt = 2});
  qp.device_reads(0);
  for (int i = 0; i < 3; ++i) bench << a_read(psn(+0), 8, tester_memory);
  qp.completes(0, "retry_exc_err");
  bench << silence();
}
// NAKs (PSN sequence error) count like timeouts. A second NAK right after a retransmission may belong to the same loss:
// then the timeout causes the retransmission, and the count is the same.
void retries_after_naks(Bench& bench) {
  Connected& qp = bench.rc({.timeout = 16, .retry_cnt = 2});
  qp.device_sends(0);
  for (int i = 0; i < 3; ++i) {
    bench << a_send(psn(+0));
    bench >> qp.nak(nak_code::psn_sequence_error, psn(+0), 0);
  }
  qp.completes(0, "retry_exc_err");
  bench << silence();
}

// An acknowledgement within the timeout reloads the retry counter.
void answered_in_between(Bench& bench) {
  Connected& qp = bench.rc({.timeout = 16, .retry_cnt = 2});
  qp.device_sends(0);
  bench << a_send(psn(+0)) << a_send(psn(+0)) << a_send(psn(+0));
  bench >> qp.ack(psn(+0), 1);
  qp.completes(0);
  qp.device_sends(1);
  bench << a_send(psn(+1)) << a_send(psn(+1)) << a_send(psn(+1));
  bench >> qp.ack(psn(+1), 2);
  qp.completes(1);
}

// A timeout of 0 disables the timer.
void no_timeout(Bench& bench) {
  Connected& qp = bench.rc({.timeout = 0, .retry_cnt = 1});
  qp.device_sends(0);
  bench << a_send(psn(+0)) << silence(500'000'000);
  qp.completes_nothing();
  bench >> qp.ack(psn(+0), 1);
  qp.completes(0);
}

}  // namespace

std::span<const Case> all() {
  constexpr Role requester = Role::requester;
  static constexpr Case list[] = {
      {.rule = "rc.requester.retry.begins-at-nak",
       .variant = "between messages",
       .role = requester,
       .run = a_nak_between_messages},
      {.rule = "rc.requester.retry.begins-at-nak",
       .variant = "inside a message",
       .role = requester,
       .run = the_middle_was_lost},
      {.rule = "rc.requester.retry.go-back-n",
       .variant = "first packet lost",
       .role = requester,
       .run = the_first_was_lost},
      {.rule = "rc.requester.retry.go-back-n",
       .variant = "last packet lost",
       .role = requester,
       .run = the_last_was_lost},
      {.rule = "rc.requester.retry.go-back-n",
       .variant = "a READ after the loss",
       .role = requester,
       .run = a_read_after_the_loss},
      {.rule = "rc.requester.retry.once-for-a-loss", .role = requester, .run = three_naks_for_one_loss},
      {.rule = "rc.requester.retry.psn-wraps",
       .variant = "packet before the wrap lost",
       .role = requester,
       .run = a_loss_before_the_wrap},
      {.rule = "rc.requester.retry.psn-wraps",
       .variant = "packet after the wrap lost",
       .role = requester,
       .run = a_loss_after_the_wrap},
      {.rule = "rc.requester.timeout.window", .variant = "17 ms", .role = requester, .run = timeout_of_17_ms},
      {.rule = "rc.requester.timeout.window", .variant = "67 ms", .role = requester, .run = timeout_of_67_ms},
      {.rule = "rc.requester.timeout.window", .variant = "537 ms", .role = requester, .run = timeout_of_537_ms},
      {.rule = "rc.requester.timeout.window",
       .variant = "restarted by progress",
       .role = requester,
       .run = progress_starts_another_timeout},
      {.rule = "rc.requester.timeout.retry-count", .variant = "0", .role = requester, .run = no_retry},
      {.rule = "rc.requester.timeout.retry-count", .variant = "1", .role = requester, .run = one_retry},
      {.rule = "rc.requester.timeout.retry-count", .variant = "7", .role = requester, .run = seven_retries},
      {.rule = "rc.requester.timeout.retry-count", .variant = "READ", .role = requester, .run = retries_of_a_read},
      {.rule = "rc.requester.timeout.retry-count", .variant = "NAKs", .role = requester, .run = retries_after_naks},
      {.rule = "rc.requester.timeout.counter-reloads", .role = requester, .run = answered_in_between},
      {.rule = "rc.requester.timeout.zero-is-none", .role = requester, .run = no_timeout},
  };
  return list;
}

}  // namespace rdmawire::conformance::rc_requester_retry_cases
