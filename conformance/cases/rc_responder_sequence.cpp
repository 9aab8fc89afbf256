/// Opcode sequence and reserved opcodes: IBTA vol 1, 9.7.4.1 (clause number not verified), Table 63, class C.

#include <functional>

#include "conformance/cases/files.hpp"

namespace rdmawire::conformance::rc_responder_sequence_cases {
namespace {

constexpr std::uint32_t mtu = 256;

// A message that starts with a Middle or Last packet: NAK (invalid request), the Error state, receives flushed.
void begins(Bench& bench, Operation operation, Position position, std::size_t length) {
  Connected& qp = bench.rc({.mtu = mtu, .receives = 1});
  bench >> qp.request(operation, position, psn(+0), {.payload = pattern_bytes(length)});
  qp.refuses(nak_invalid_request(psn(+0)));
  qp.fails_or_is_flushed(0);
}
void send_middle(Bench& bench) { begins(bench, Operation::send, Position::middle, mtu); }
void send_last(Bench& bench) { begins(bench, Operation::send, Position::last, 8); }
void write_middle(Bench& bench) { begins(bench, Operation::rdma_write, Position::middle, mtu); }
void write_last(Bench& bench) { begins(bench, Operation::rdma_write, Position::last, 8); }

// The same after a complete message.
void middle_after_a_message(Bench& bench) {
  Connected& qp = bench.rc({.mtu = mtu, .receives = 2});
  bench >> qp.send_only(psn(+0));
  bench << ack(psn(+0)).msn(1);
  bench >> qp.send_middle(psn(+1), pattern_bytes(mtu));
  qp.refuses(nak_invalid_request(psn(+1)));
}

// A message starts before the preceding one has ended.
void open_send_then(Bench& bench, const std::function<Stimulus(Connected&)>& next) {
  Connected& qp = bench.rc({.mtu = mtu, .receives = 2});
  bench >> qp.send_first(psn(+0), pattern_bytes(mtu));
  bench << ack(psn(+0)).msn(0);
  bench >> next(qp);
  qp.refuses(nak_invalid_request(psn(+1)));
}
void open_write_then(Bench& bench, const std::function<Stimulus(Connected&)>& next) {
  Connected& qp = bench.rc({.mtu = mtu, .receives = 2});
  bench >> qp.write_first(psn(+0), qp.at(0, 3 * mtu, pattern_bytes(mtu)));
  bench << ack(psn(+0)).msn(0);
  bench >> next(qp);
  qp.refuses(nak_invalid_request(psn(+1)));
}

void send_first_first(Bench& bench) {
  open_send_then(bench, [](Connected& qp) { return qp.send_first(psn(+1), pattern_bytes(mtu)); });
}
void send_first_only(Bench& bench) {
  open_send_then(bench, [](Connected& qp) { return qp.send_only(psn(+1)); });
}
void write_first_first(Bench& bench) {
  open_write_then(bench, [](Connected& qp) { return qp.write_first(psn(+1), qp.at(0, 512, pattern_bytes(mtu))); });
}
void write_first_only(Bench& bench) {
  open_write_then(bench, [](Connected& qp) { return qp.write_only(psn(+1), qp.at(0, 0, pattern_bytes(8))); });
}

// A message continues with another operation.
void send_then_write_middle(Bench& bench) {
  open_send_then(bench, [](Connected& qp) { return qp.write_middle(psn(+1), pattern_bytes(mtu)); });
}
void send_then_write_last(Bench& bench) {
  open_send_then(bench, [](Connected& qp) { return qp.write_last(psn(+1), pattern_bytes(8)); });
}
void write_then_send_middle(Bench& bench) {
  open_write_then(bench, [](Connected& qp) { return qp.send_middle(psn(+1), pattern_bytes(mtu)); });
}
void write_then_send_last(Bench& bench) {
  open_write_then(bench, [](Connected& qp) { return qp.send_last(psn(+1), pattern_bytes(8)); });
}

// A READ or an atomic within a message.
void read_inside_a_write(Bench& bench) {
  open_write_then(bench, [](Connected& qp) { return qp.read(psn(+1), qp.at(0, 8)); });
}
void read_inside_a_send(Bench& bench) {
  open_send_then(bench, [](Connected& qp) { return qp.read(psn(+1), qp.at(0, 8)); });
}
void atomic_inside_a_write(Bench& bench) {
  open_write_then(bench, [](Connected& qp) { return qp.fetch_add(psn(+1), qp.at(0)); });
}

// A reserved RC opcode with the expected PSN: NAK (invalid request), and the Error state.
void reserved(Bench& bench, std::uint8_t opcode) {
  Connected& qp = bench.rc({.receives = 1});
  bench >> qp.request(opcode, psn(+0)).with<Bth, "ack_request">(1, "with AckReq");
  qp.refuses(nak_invalid_request(psn(+0)));
}
void opcode_18(Bench& bench) { reserved(bench, 0x18); }
void opcode_1b(Bench& bench) { reserved(bench, 0x1b); }
void opcode_1f(Bench& bench) { reserved(bench, 0x1f); }

}  // namespace

std::span<const Case> all() {
  static constexpr Case list[] = {
      {.rule = "rc.responder.opcode.begins-in-the-middle", .variant = "SEND Middle", .run = send_middle},
      {.rule = "rc.responder.opcode.begins-in-the-middle", .variant = "SEND Last", .run = send_last},
      {.rule = "rc.responder.opcode.begins-in-the-middle", .variant = "WRITE Middle", .run = write_middle},
      {.rule = "rc.responder.opcode.begins-in-the-middle", .variant = "WRITE Last", .run = write_last},
      {.rule = "rc.responder.opcode.begins-in-the-middle", .variant = "after a message", .run = middle_after_a_message},
      {.rule = "rc.responder.opcode.message-not-ended", .variant = "SEND First, First", .run = send_first_first},
      {.rule = "rc.responder.opcode.message-not-ended", .variant = "SEND First, Only", .run = send_first_only},
      {.rule = "rc.responder.opcode.message-not-ended", .variant = "WRITE First, First", .run = write_first_first},
      {.rule = "rc.responder.opcode.message-not-ended", .variant = "WRITE First, Only", .run = write_first_only},
      {.rule = "rc.responder.opcode.operations-mixed", .variant = "SEND, WRITE Middle", .run = send_then_write_middle},
      {.rule = "rc.responder.opcode.operations-mixed", .variant = "SEND, WRITE Last", .run = send_then_write_last},
      {.rule = "rc.responder.opcode.operations-mixed", .variant = "WRITE, SEND Middle", .run = write_then_send_middle},
      {.rule = "rc.responder.opcode.operations-mixed", .variant = "WRITE, SEND Last", .run = write_then_send_last},
      {.rule = "rc.responder.opcode.read-inside-message", .variant = "WRITE", .run = read_inside_a_write},
      {.rule = "rc.responder.opcode.read-inside-message", .variant = "SEND", .run = read_inside_a_send},
      {.rule = "rc.responder.opcode.read-inside-message",
       .variant = "an atomic",
       .needs = Need::atomics,
       .run = atomic_inside_a_write},
      {.rule = "rc.responder.opcode.reserved", .variant = "0x18", .run = opcode_18},
      {.rule = "rc.responder.opcode.reserved", .variant = "0x1B", .run = opcode_1b},
      {.rule = "rc.responder.opcode.reserved", .variant = "0x1F", .run = opcode_1f},
  };
  return list;
}

}  // namespace rdmawire::conformance::rc_responder_sequence_cases
