/// Handling of acknowledgements by the requester: IBTA vol 1, 9.7.5.1.2 (coalesced acknowledges), 9.7.5 (valid PSNs of
/// responses, clause number not verified), 9.3.5 (AETH), 9.7.7.2 (end-to-end credits, clause number not verified).

#include "conformance/cases/files.hpp"
#include "conformance/cases/path_mtu.hpp"

namespace rdmawire::conformance::rc_requester_acknowledge_cases {
namespace {

constexpr std::uint8_t patient = 20;  ///< a timeout of 4.3 s, longer than the case
constexpr std::uint8_t acknowledge = 0x11;

void send_three(Bench& bench, Connected& qp) {
  for (std::uint64_t i = 0; i < 3; ++i) qp.device_sends(i);
  bench << a_send(psn(+0)) << a_send(psn(+1)) << a_send(psn(+2));
}

// 9.7.5.1.2: an ACK acknowledges all requests up to its PSN, and no later one.
void one_ack_for_two(Bench& bench) {
  Connected& qp = bench.rc({.timeout = patient});
  send_three(bench, qp);
  bench >> qp.ack(psn(+1), 2);
  qp.completes(0);
  qp.completes(1);
  qp.completes_nothing();
  bench >> qp.ack(psn(+2), 3);
  qp.completes(2);
}

// The ACKs of the first two requests are lost. The third arrives.
void lost_acks_do_not_matter(Bench& bench) {
  Connected& qp = bench.rc({.timeout = patient});
  send_three(bench, qp);
  bench >> qp.ack(psn(+2), 3);
  for (std::uint64_t i = 0; i < 3; ++i) qp.completes(i);
  bench << silence();
}

// An ACK within a message does not complete the message.
void an_ack_inside_a_message(Bench& bench) {
  Connected& qp = bench.rc({.mtu = small_packets, .timeout = patient});
  qp.device_sends(0, {.length = 2 * qp.mtu + 88});
  bench << a_send(psn(+0), Position::first) << a_send(psn(+1), Position::middle) << a_send(psn(+2), Position::last);
  bench >> qp.ack(psn(+1), 0);
  qp.completes_nothing();
  bench >> qp.ack(psn(+2), 1);
  qp.completes(0);
}

void acks_across_the_wrap(Bench& bench) {
  Connected& qp = bench.rc({.timeout = patient, .device_psn = 0xffffff});
  send_three(bench, qp);
  bench >> qp.ack(psn(+0), 1);
  qp.completes(0);
  bench >> qp.ack(psn(+2), 3);
  qp.completes(1);
  qp.completes(2);
}

// An ACK of a PSN that was never sent: a ghost acknowledgement.
void an_ack_ahead(Bench& bench, std::int32_t ahead) {
  Connected& qp = bench.rc({.timeout = patient});
  qp.device_sends(0);
  bench << a_send(psn(+0));
  bench >> qp.ack(psn(ahead), 1);
  qp.completes_nothing();
  bench >> qp.ack(psn(+0), 1);
  qp.completes(0);
}
void an_ack_one_ahead(Bench& bench) { an_ack_ahead(bench, +1); }
void an_ack_far_ahead(Bench& bench) { an_ack_ahead(bench, +1000); }

void a_nak_ahead(Bench& bench) {
  Connected& qp = bench.rc({.timeout = patient});
  qp.device_sends(0);
  bench << a_send(psn(+0));
  bench >> qp.nak(nak_code::psn_sequence_error, psn(+5), 1);
  bench << silence();
  qp.completes_nothing();
  bench >> qp.ack(psn(+0), 1);
  qp.completes(0);
}

// A late acknowledgement of an acknowledged PSN has no effect.
void stale(Bench& bench, const std::function<Stimulus(Connected&)>& old) {
  Connected& qp = bench.rc({.timeout = patient});
  qp.device_sends(0);
  bench << a_send(psn(+0));
  bench >> qp.ack(psn(+0), 1);
  qp.completes(0);
  qp.device_sends(1);
  bench << a_send(psn(+1));
  bench >> old(qp);
  bench << silence();
  qp.completes_nothing();
  bench >> qp.ack(psn(+1), 2);
  qp.completes(1);
}
void a_stale_ack(Bench& bench) {
  stale(bench, [](Connected& qp) { return qp.ack(psn(+0), 1); });
}
void a_stale_nak(Bench& bench) {
  stale(bench, [](Connected& qp) { return qp.nak(nak_code::psn_sequence_error, psn(+0), 1); });
}
void a_stale_fatal_nak(Bench& bench) {
  stale(bench, [](Connected& qp) { return qp.nak(nak_code::remote_access_error, psn(+0), 1); });
}
void an_ack_from_before_the_connection(Bench& bench) {
  stale(bench, [](Connected& qp) { return qp.ack(psn(-3), 1); });
}

// The kinds of a syndrome are ACK, RNR NAK and NAK. The fourth is reserved.
void a_reserved_syndrome(Bench& bench) {
  Connected& qp = bench.rc({.timeout = 14, .retry_cnt = 1});
  qp.device_sends(0);
  bench << a_send(psn(+0));
  bench >> qp.response(acknowledge, psn(+0), 0x40, 1);
  qp.fails_or_is_asked_again(0);
}

// Credits: with zero credits, the requester sends one message that needs a receive, and waits.
void no_credits(Bench& bench) {
  Connected& qp = bench.rc({.timeout = patient});
  qp.device_sends(0);
  bench << a_send(psn(+0));
  bench >> qp.response(acknowledge, psn(+0), 0x00, 1);
  qp.completes(0);
  qp.device_sends(1);
  qp.device_sends(2);
  bench << a_send(psn(+1)) << silence();
  bench >> qp.response(acknowledge, psn(+1), 0x1f, 2);
  bench << a_send(psn(+2));
}

void two_credits(Bench& bench) {
  Connected& qp = bench.rc({.timeout = patient});
  qp.device_sends(0);
  bench << a_send(psn(+0));
  bench >> qp.response(acknowledge, psn(+0), 0x02, 1);
  qp.completes(0);
  for (std::uint64_t i = 1; i <= 4; ++i) qp.device_sends(i);
  bench << a_send(psn(+1)) << a_send(psn(+2)) << a_send(psn(+3)) << silence();
}

}  // namespace

std::span<const Case> all() {
  constexpr Role requester = Role::requester;
  static constexpr Case list[] = {
      {.rule = "rc.requester.ack.completes-up-to",
       .variant = "two of three",
       .role = requester,
       .run = one_ack_for_two},
      {.rule = "rc.requester.ack.completes-up-to",
       .variant = "lost ACKs",
       .role = requester,
       .run = lost_acks_do_not_matter},
      {.rule = "rc.requester.ack.completes-up-to",
       .variant = "inside a message",
       .role = requester,
       .run = an_ack_inside_a_message},
      {.rule = "rc.requester.ack.completes-up-to",
       .variant = "modulo 2^24",
       .role = requester,
       .run = acks_across_the_wrap},
      {.rule = "rc.requester.ack.unsent-ignored", .variant = "one ahead", .role = requester, .run = an_ack_one_ahead},
      {.rule = "rc.requester.ack.unsent-ignored", .variant = "far ahead", .role = requester, .run = an_ack_far_ahead},
      {.rule = "rc.requester.nak.unsent-ignored", .role = requester, .run = a_nak_ahead},
      {.rule = "rc.requester.ack.stale-ignored", .variant = "ACK", .role = requester, .run = a_stale_ack},
      {.rule = "rc.requester.ack.stale-ignored",
       .variant = "NAK PSN sequence error",
       .role = requester,
       .run = a_stale_nak},
      {.rule = "rc.requester.ack.stale-ignored",
       .variant = "NAK remote access error",
       .role = requester,
       .run = a_stale_fatal_nak},
      {.rule = "rc.requester.ack.stale-ignored",
       .variant = "from before the connection",
       .role = requester,
       .run = an_ack_from_before_the_connection},
      {.rule = "rc.requester.response.reserved-syndrome",
       .variant = "SEND",
       .role = requester,
       .run = a_reserved_syndrome},
      {.rule = "rc.requester.credits.kept", .variant = "none", .role = requester, .run = no_credits},
      {.rule = "rc.requester.credits.kept", .variant = "two", .role = requester, .run = two_credits},
  };
  return list;
}

}  // namespace rdmawire::conformance::rc_requester_acknowledge_cases
