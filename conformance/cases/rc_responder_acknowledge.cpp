/// Acknowledgements and the message sequence number: IBTA vol 1, 9.7.5 (acknowledge messages), 9.7.7.1 (MSN).

#include "conformance/cases/files.hpp"
#include "conformance/cases/path_mtu.hpp"

namespace rdmawire::conformance::rc_responder_acknowledge_cases {
namespace {

// An expected request with AckReq causes an ACK with its own PSN, and the MSN counts the message. C9-148, 9.7.5
void send_is_acknowledged(Bench& bench) {
  Connected& qp = bench.rc({.receives = 1});
  const std::string payload = pattern_bytes(100);
  bench >> qp.send_only(psn(+0), payload);
  bench << ack(psn(+0)).msn(1);
  qp.completes(0);
  qp.received(0, payload);
}

void write_is_acknowledged(Bench& bench) {
  Connected& qp = bench.rc();
  const std::string payload = pattern_bytes(100);
  bench >> qp.write_only(psn(+0), qp.at(16, 0, payload));
  bench << ack(psn(+0)).msn(1);
  qp.holds(16, payload);
}

void empty_send_is_acknowledged(Bench& bench) {
  Connected& qp = bench.rc({.receives = 1});
  bench >> qp.send_only(psn(+0), "");
  bench << ack(psn(+0)).msn(1);
  const peer::Completion completion = qp.completes(0);
  bench.require(completion.byte_len == 0, "0 bytes received", std::to_string(completion.byte_len));
}

void send_of_the_path_mtu(Bench& bench) {
  Connected& qp = bench.rc({.receives = 1});
  const std::string payload = pattern_bytes(qp.mtu);
  bench >> qp.send_only(psn(+0), payload);
  bench << ack(psn(+0)).msn(1);
  qp.completes(0);
  qp.received(0, payload);
}

// An ACK acknowledges all earlier requests, including requests without AckReq. 9.7.5.1.2
void one_ack_for_two(Bench& bench) {
  Connected& qp = bench.rc({.receives = 2});
  bench >> qp.send_only(psn(+0)).without_ack_request() >> qp.send_only(psn(+1));
  bench << acknowledged(psn(+1)).msn(2) << silence();
}

void one_ack_for_a_message(Bench& bench) {
  Connected& qp = bench.rc({.mtu = small_packets, .receives = 1});
  bench >> qp.send_first(psn(+0), pattern_bytes(qp.mtu)).without_ack_request();
  bench >> qp.send_middle(psn(+1), pattern_bytes(qp.mtu)).without_ack_request() >>
      qp.send_last(psn(+2), pattern_bytes(1));
  bench << acknowledged(psn(+2)).msn(1) << silence();
}

// A request with AckReq causes one response, which only a retransmission repeats.
void acknowledged_once(Bench& bench) {
  Connected& qp = bench.rc({.receives = 1});
  bench >> qp.send_only(psn(+0));
  bench << ack(psn(+0)) << silence();
}

void acknowledged_inside_a_message(Bench& bench) {
  Connected& qp = bench.rc({.mtu = small_packets, .receives = 1});
  bench >> qp.send_first(psn(+0), pattern_bytes(qp.mtu));
  bench << ack(psn(+0)).msn(0);  // the message is not complete
  bench >> qp.send_last(psn(+1), pattern_bytes(8));
  bench << ack(psn(+1)).msn(1) << silence();
}

// MSN is 0 after connection establishment: an ACK before the end of the first message has 0, and the ACK of its end 1.
// C9-148
void msn_starts(Bench& bench) {
  bench.environment().fix(Parameter::history, "the rule is about the first message of a connection");
  Connected& qp = bench.rc({.mtu = small_packets});
  bench >> qp.write_first(psn(+0), qp.at(0, 2 * qp.mtu, pattern_bytes(qp.mtu)));
  bench << ack(psn(+0)).msn(0);
  bench >> qp.write_last(psn(+1), pattern_bytes(qp.mtu));
  bench << ack(psn(+1)).msn(1);
}

// A message is counted once, regardless of its number of packets. C9-148
void msn_of_a_long_write(Bench& bench) {
  Connected& qp = bench.rc({.mtu = small_packets});
  bench >> qp.write_first(psn(+0), qp.at(0, 4 * qp.mtu, pattern_bytes(qp.mtu))).without_ack_request();
  bench >> qp.write_middle(psn(+1), pattern_bytes(qp.mtu)).without_ack_request();
  bench >> qp.write_middle(psn(+2), pattern_bytes(qp.mtu)).without_ack_request() >>
      qp.write_last(psn(+3), pattern_bytes(qp.mtu));
  bench << acknowledged(psn(+3)).msn(1);
  bench >> qp.write_only(psn(+4), qp.at(0, 0, pattern_bytes(8)));
  bench << ack(psn(+4)).msn(2);
}

void msn_after_a_long_read(Bench& bench) {
  Connected& qp = bench.rc({.mtu = small_packets});
  bench >> qp.read(psn(+0), qp.at(0, 3 * qp.mtu));
  bench << read_response(Position::first, psn(+0)) << read_response(Position::middle, psn(+1))
        << read_response(Position::last, psn(+2)).msn(1);
  bench >> qp.write_only(psn(+3), qp.at(0, 0, pattern_bytes(8)));
  bench << ack(psn(+3)).msn(2);
}

// The last packet of a READ response has an MSN that counts the READ. C9-148
void msn_in_a_read_response(Bench& bench) {
  Connected& qp = bench.rc({.mtu = small_packets, .receives = 1});
  bench >> qp.send_only(psn(+0));
  bench << ack(psn(+0)).msn(1);
  bench >> qp.read(psn(+1), qp.at(0, 2 * qp.mtu));
  bench << read_response(Position::first, psn(+1)).where("MSN 1 or 2", [](const Seen& s) {
    return s.msn == 1 || s.msn == 2;
  });
  bench << read_response(Position::last, psn(+2)).msn(2);
}

void msn_in_a_short_read_response(Bench& bench) {
  Connected& qp = bench.rc();
  bench >> qp.read(psn(+0), qp.at(0, 8));
  bench << read_response(Position::only, psn(+0)).msn(1);
}

// A duplicate request is not counted. C9-148
void msn_after_a_duplicate_send(Bench& bench) {
  Connected& qp = bench.rc({.receives = 3});
  bench >> qp.send_only(psn(+0));
  bench << ack(psn(+0)).msn(1);
  bench >> qp.send_only(psn(+0));
  bench << ack(psn(+0)).msn(1);
  bench >> qp.send_only(psn(+1));
  bench << ack(psn(+1)).msn(2);
}

void msn_after_a_duplicate_read(Bench& bench) {
  Connected& qp = bench.rc();
  bench >> qp.read(psn(+0), qp.at(0, 8));
  bench << read_response(Position::only, psn(+0)).msn(1);
  bench >> qp.read(psn(+0), qp.at(0, 8));
  bench << read_response(Position::only, psn(+0)).msn(1);
  bench >> qp.write_only(psn(+1), qp.at(0, 0, pattern_bytes(8)));
  bench << ack(psn(+1)).msn(2);
}

// Responses are sent in the order of the requests.
void responses_in_order(Bench& bench) {
  Connected& qp = bench.rc({.mtu = small_packets, .receives = 2});
  bench >> qp.send_only(psn(+0)) >> qp.read(psn(+1), qp.at(0, 3 * qp.mtu)) >> qp.send_only(psn(+4));
  bench << ack(psn(+0)) << read_response(Position::first, psn(+1)) << read_response(Position::middle, psn(+2))
        << read_response(Position::last, psn(+3)) << ack(psn(+4)).msn(3);
}

// A request after a READ is executed after it: the READ returns the old memory content. 9.5
void write_after_a_read(Bench& bench) {
  Connected& qp = bench.rc({.mtu = small_packets});
  const std::string before = pattern_bytes(2 * qp.mtu, 7);
  qp.fill(0, before);
  bench >> qp.read(psn(+0), qp.at(0, 2 * qp.mtu)) >>
      qp.write_only(psn(+2), qp.at(qp.mtu, 0, pattern_bytes(qp.mtu, 99)));
  bench << read_response(Position::first, psn(+0)).carrying(before.substr(0, qp.mtu))
        << read_response(Position::last, psn(+1)).carrying(before.substr(qp.mtu)) << ack(psn(+2)).msn(2);
  qp.holds(qp.mtu, pattern_bytes(qp.mtu, 99));
}

void send_after_a_read(Bench& bench) {
  Connected& qp = bench.rc({.mtu = small_packets, .receives = 1});
  bench >> qp.read(psn(+0), qp.at(0, 2 * qp.mtu)) >> qp.send_only(psn(+2));
  bench << read_response(Position::first, psn(+0)) << read_response(Position::last, psn(+1)) << ack(psn(+2)).msn(2);
}

void read_after_a_write(Bench& bench) {
  Connected& qp = bench.rc();
  const std::string payload = pattern_bytes(64, 33);
  bench >> qp.write_only(psn(+0), qp.at(0, 0, payload)).without_ack_request() >> qp.read(psn(+1), qp.at(0, 64));
  bench << Expectation("the READ's response, an ACK of the WRITE before it allowed", [&](const Seen& seen) {
    if (conformance::ack(psn(+0)).judge(seen) == Match::yes) return Match::skip;
    return read_response(Position::only, psn(+1)).carrying(payload).judge(seen);
  });
}

}  // namespace

std::span<const Case> all() {
  static constexpr Case list[] = {
      {.rule = "rc.responder.ack.in-order", .variant = "SEND", .run = send_is_acknowledged},
      {.rule = "rc.responder.ack.in-order", .variant = "WRITE", .run = write_is_acknowledged},
      {.rule = "rc.responder.ack.in-order", .variant = "no bytes", .run = empty_send_is_acknowledged},
      {.rule = "rc.responder.ack.in-order", .variant = "the path MTU", .run = send_of_the_path_mtu},
      {.rule = "rc.responder.ack.coalesced", .variant = "two messages", .run = one_ack_for_two},
      {.rule = "rc.responder.ack.coalesced", .variant = "packets of one message", .run = one_ack_for_a_message},
      {.rule = "rc.responder.ack.asked-for-once", .variant = "an Only", .run = acknowledged_once},
      {.rule = "rc.responder.ack.asked-for-once", .variant = "First and Last", .run = acknowledged_inside_a_message},
      {.rule = "rc.responder.msn.starts-at-zero", .run = msn_starts},
      {.rule = "rc.responder.msn.once-a-message", .variant = "WRITE", .run = msn_of_a_long_write},
      {.rule = "rc.responder.msn.once-a-message", .variant = "READ", .run = msn_after_a_long_read},
      {.rule = "rc.responder.msn.in-read-response", .variant = "two packets", .run = msn_in_a_read_response},
      {.rule = "rc.responder.msn.in-read-response", .variant = "one packet", .run = msn_in_a_short_read_response},
      {.rule = "rc.responder.msn.unchanged-by-duplicate", .variant = "SEND", .run = msn_after_a_duplicate_send},
      {.rule = "rc.responder.msn.unchanged-by-duplicate", .variant = "READ", .run = msn_after_a_duplicate_read},
      {.rule = "rc.responder.order.responses-by-psn", .run = responses_in_order},
      {.rule = "rc.responder.order.behind-read", .variant = "WRITE", .run = write_after_a_read},
      {.rule = "rc.responder.order.behind-read", .variant = "SEND", .run = send_after_a_read},
      {.rule = "rc.responder.order.behind-read", .variant = "READ after a WRITE", .run = read_after_a_write},
  };
  return list;
}

}  // namespace rdmawire::conformance::rc_responder_acknowledge_cases
