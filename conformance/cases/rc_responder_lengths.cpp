/// Lengths of requests and of their packets: IBTA vol 1, 9.7.4.1.6, C9-94.

#include "conformance/cases/files.hpp"

namespace rdmawire::conformance::rc_responder_lengths_cases {
namespace {

constexpr std::uint32_t mtu = 256;

// A First or Middle packet has exactly the path MTU.
void first_of(Bench& bench, std::uint32_t length, bool write) {
  Connected& qp = bench.rc({.mtu = mtu, .receives = 1});
  bench >> (write ? qp.write_first(psn(+0), qp.at(0, 4 * mtu, pattern_bytes(length)))
                  : qp.send_first(psn(+0), pattern_bytes(length)));
  qp.refuses(nak_invalid_request(psn(+0)));
}
void middle_of(Bench& bench, std::uint32_t length, bool write) {
  Connected& qp = bench.rc({.mtu = mtu, .receives = 1});
  bench >> (write ? qp.write_first(psn(+0), qp.at(0, 4 * mtu, pattern_bytes(mtu)))
                  : qp.send_first(psn(+0), pattern_bytes(mtu)));
  bench << ack(psn(+0));
  bench >> (write ? qp.write_middle(psn(+1), pattern_bytes(length)) : qp.send_middle(psn(+1), pattern_bytes(length)));
  qp.refuses(nak_invalid_request(psn(+1)));
}
void short_send_first(Bench& bench) { first_of(bench, mtu - 4, false); }
void long_send_first(Bench& bench) { first_of(bench, mtu + 4, false); }
void short_write_first(Bench& bench) { first_of(bench, mtu - 4, true); }
void long_write_first(Bench& bench) { first_of(bench, mtu + 4, true); }
void short_send_middle(Bench& bench) { middle_of(bench, mtu - 4, false); }
void long_send_middle(Bench& bench) { middle_of(bench, mtu + 4, false); }
void short_write_middle(Bench& bench) { middle_of(bench, mtu - 4, true); }
void empty_first(Bench& bench) { first_of(bench, 0, false); }

// An Only packet has at most the path MTU.
void long_send_only(Bench& bench) {
  Connected& qp = bench.rc({.mtu = mtu, .receives = 1});
  bench >> qp.send_only(psn(+0), pattern_bytes(mtu + 4));
  qp.refuses(nak_invalid_request(psn(+0)));
}
void long_write_only(Bench& bench) {
  Connected& qp = bench.rc({.mtu = mtu, .receives = 1});
  bench >> qp.write_only(psn(+0), qp.at(0, 0, pattern_bytes(mtu + 4)));
  qp.refuses(nak_invalid_request(psn(+0)));
  qp.holds(0, std::string(mtu + 4, '\0'));
}

// A Last packet has between 1 byte and the path MTU.
void last_of(Bench& bench, std::uint32_t length) {
  Connected& qp = bench.rc({.mtu = mtu, .receives = 1});
  bench >> qp.send_first(psn(+0), pattern_bytes(mtu));
  bench << ack(psn(+0));
  bench >> qp.send_last(psn(+1), pattern_bytes(length));
  qp.refuses(nak_invalid_request(psn(+1)));
}
void write_last_of(Bench& bench, std::uint32_t announced, std::uint32_t length) {
  Connected& qp = bench.rc({.mtu = mtu});
  bench >> qp.write_first(psn(+0), qp.at(0, announced, pattern_bytes(mtu)));
  bench << ack(psn(+0));
  bench >> qp.write_last(psn(+1), pattern_bytes(length));
  qp.refuses(nak_invalid_request(psn(+1)));
}
void empty_send_last(Bench& bench) { last_of(bench, 0); }
void long_send_last(Bench& bench) { last_of(bench, mtu + 4); }
void empty_write_last(Bench& bench) { write_last_of(bench, mtu + 4, 0); }
void long_write_last(Bench& bench) { write_last_of(bench, 2 * mtu + 4, mtu + 4); }

// The packets of a WRITE have exactly the DMA length of the RETH in total.
void write_only_announcing(Bench& bench, std::uint32_t announced) {
  Connected& qp = bench.rc();
  Operands operands = qp.at(0, announced, pattern_bytes(64));
  bench >> qp.write_only(psn(+0), operands);
  qp.refuses(nak_invalid_request(psn(+0)));
}
void only_announces_more(Bench& bench) { write_only_announcing(bench, 65); }
void only_announces_less(Bench& bench) { write_only_announcing(bench, 63); }
void last_brings_less(Bench& bench) { write_last_of(bench, mtu + 9, 8); }
void last_brings_more(Bench& bench) { write_last_of(bench, mtu + 7, 8); }
void middle_brings_too_much(Bench& bench) {
  Connected& qp = bench.rc({.mtu = mtu});
  bench >> qp.write_first(psn(+0), qp.at(0, mtu + 8, pattern_bytes(mtu)));
  bench << ack(psn(+0));
  bench >> qp.write_middle(psn(+1), pattern_bytes(mtu, 9));
  qp.refuses(nak_invalid_request(psn(+1)));
  qp.holds(mtu + 8, std::string(64, '\0'));
}

// A RETH has a DMA length of at most 2^31 bytes. C9-94
constexpr std::uint32_t too_much = 0x80000001;
void write_announces_too_much(Bench& bench) {
  Connected& qp = bench.rc({.mtu = mtu});
  bench >> qp.write_first(psn(+0), qp.at(0, too_much, pattern_bytes(mtu)));
  qp.refuses(nak_invalid_request(psn(+0)));
}
void read_asks_too_much(Bench& bench) {
  Connected& qp = bench.rc({.mtu = mtu});
  bench >> qp.read(psn(+0), qp.at(0, too_much));
  qp.refuses(nak_invalid_request(psn(+0)));
}

// A SEND longer than its receive: NAK (invalid request), and the receive completes in error.
void send_over_the_receive(Bench& bench) {
  Connected& qp = bench.rc({.receives = 1, .receive_bytes = 64});
  bench >> qp.send_only(psn(+0), pattern_bytes(65));
  bench << nak_invalid_request(psn(+0));
  qp.fails(0);
  qp.is_in("err");
}
void last_over_the_receive(Bench& bench) {
  Connected& qp = bench.rc({.mtu = mtu, .receives = 1, .receive_bytes = mtu + 4});
  bench >> qp.send_first(psn(+0), pattern_bytes(mtu));
  bench << ack(psn(+0));
  bench >> qp.send_last(psn(+1), pattern_bytes(5));
  bench << nak_invalid_request(psn(+1));
  qp.fails(0);
  qp.is_in("err");
}

}  // namespace

std::span<const Case> all() {
  static constexpr Case list[] = {
      {.rule = "rc.responder.length.first-or-middle", .variant = "short SEND First", .run = short_send_first},
      {.rule = "rc.responder.length.first-or-middle", .variant = "long SEND First", .run = long_send_first},
      {.rule = "rc.responder.length.first-or-middle", .variant = "empty SEND First", .run = empty_first},
      {.rule = "rc.responder.length.first-or-middle", .variant = "short WRITE First", .run = short_write_first},
      {.rule = "rc.responder.length.first-or-middle", .variant = "long WRITE First", .run = long_write_first},
      {.rule = "rc.responder.length.first-or-middle", .variant = "short SEND Middle", .run = short_send_middle},
      {.rule = "rc.responder.length.first-or-middle", .variant = "long SEND Middle", .run = long_send_middle},
      {.rule = "rc.responder.length.first-or-middle", .variant = "short WRITE Middle", .run = short_write_middle},
      {.rule = "rc.responder.length.only", .variant = "SEND", .run = long_send_only},
      {.rule = "rc.responder.length.only", .variant = "WRITE", .run = long_write_only},
      {.rule = "rc.responder.length.last", .variant = "empty SEND", .run = empty_send_last},
      {.rule = "rc.responder.length.last", .variant = "long SEND", .run = long_send_last},
      {.rule = "rc.responder.length.last", .variant = "empty WRITE", .run = empty_write_last},
      {.rule = "rc.responder.length.last", .variant = "long WRITE", .run = long_write_last},
      {.rule = "rc.responder.length.write-total", .variant = "Only, less", .run = only_announces_more},
      {.rule = "rc.responder.length.write-total", .variant = "Only, more", .run = only_announces_less},
      {.rule = "rc.responder.length.write-total", .variant = "Last, less", .run = last_brings_less},
      {.rule = "rc.responder.length.write-total", .variant = "Last, more", .run = last_brings_more},
      {.rule = "rc.responder.length.write-total", .variant = "Middle, more", .run = middle_brings_too_much},
      {.rule = "rc.responder.length.above-maximum", .variant = "WRITE", .run = write_announces_too_much},
      {.rule = "rc.responder.length.above-maximum", .variant = "READ", .run = read_asks_too_much},
      {.rule = "rc.responder.length.receive-too-small", .variant = "Only", .run = send_over_the_receive},
      {.rule = "rc.responder.length.receive-too-small", .variant = "Last", .run = last_over_the_receive},
  };
  return list;
}

}  // namespace rdmawire::conformance::rc_responder_lengths_cases
