/// The responder's PSNs: IBTA vol 1, 9.7.3 (valid, duplicate and invalid regions), 9.7.5.2.2 (NAK codes).

#include "conformance/cases/files.hpp"
#include "conformance/cases/path_mtu.hpp"

namespace rdmawire::conformance::rc_responder_psn_cases {
namespace {

// A PSN gap causes exactly one NAK with the missing PSN, and no further response until it arrives.
void one_nak_for_a_gap(Bench& bench) {
  Connected& qp = bench.rc({.receives = 3});
  bench >> qp.send_only(psn(+1)) >> qp.send_only(psn(+2));  // +0 is missing
  bench << nak_sequence_error(psn(+0)) << silence();
  bench >> qp.send_only(psn(+0));
  bench << ack(psn(+0)).msn(1);
}

// After the missing request has arrived, another gap causes another NAK.
void the_next_gap_causes_a_nak(Bench& bench) {
  Connected& qp = bench.rc({.receives = 4});
  bench >> qp.send_only(psn(+1));
  bench << nak_sequence_error(psn(+0));
  bench >> qp.send_only(psn(+0));
  bench << ack(psn(+0));
  bench >> qp.send_only(psn(+2));  // +1 is missing
  bench << nak_sequence_error(psn(+1)) << silence();
}

// PSNs count modulo 2^24, within a message and between messages.
void psns_wrap_inside_a_message(Bench& bench) {
  Connected& qp = bench.rc({.mtu = small_packets, .receives = 2, .first_psn = 0xffffff});
  bench >> qp.send_first(psn(+0), pattern_bytes(qp.mtu)).without_ack_request() >>
      qp.send_last(psn(+1), pattern_bytes(4));
  bench << acknowledged(psn(+1)).msn(1);
  qp.completes(0);
}

void psns_wrap_between_messages(Bench& bench) {
  Connected& qp = bench.rc({.receives = 2, .first_psn = 0xffffff});
  bench >> qp.send_only(psn(+0));
  bench << ack(psn(+0)).msn(1);
  bench >> qp.send_only(psn(+1));
  bench << ack(psn(+1)).msn(2);
}

// The PSN space is divided into equal parts before and after the expected PSN.
void farthest_duplicate(Bench& bench) {
  Connected& qp = bench.rc({.receives = 2});
  bench >> qp.send_only(psn(+0));
  bench << ack(psn(+0)).msn(1);
  bench >> qp.send_only(psn(+1 - 0x800000));
  bench << ack(psn(+0)).msn(1);  // the newest executed request: C9-105
  qp.completes(0);
  qp.completes_nothing();
}

void farthest_ahead(Bench& bench) {
  Connected& qp = bench.rc({.receives = 2});
  bench >> qp.send_only(psn(+0));
  bench << ack(psn(+0)).msn(1);
  bench >> qp.send_only(psn(+1 + 0x7fffff));
  bench << nak_sequence_error(psn(+1)) << silence();
}

}  // namespace

std::span<const Case> all() {
  static constexpr Case list[] = {
      {.rule = "rc.responder.psn.sequence-error", .run = one_nak_for_a_gap},
      {.rule = "rc.responder.psn.sequence-error-again", .run = the_next_gap_causes_a_nak},
      {.rule = "rc.responder.psn.wraps", .variant = "inside a message", .run = psns_wrap_inside_a_message},
      {.rule = "rc.responder.psn.wraps", .variant = "between messages", .run = psns_wrap_between_messages},
      {.rule = "rc.responder.psn.half-window", .variant = "duplicate", .run = farthest_duplicate},
      {.rule = "rc.responder.psn.half-window", .variant = "ahead", .run = farthest_ahead},
  };
  return list;
}

}  // namespace rdmawire::conformance::rc_responder_psn_cases
