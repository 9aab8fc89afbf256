/// CRCs and pads of FPDUs: RFC 5044, 4.1, 4.4 (covered bytes), 6 (check before placement), 8 (codes 2 and 3).
/// RFC 5040, 4.8: the Terminate for an invalid CRC has layer 2, type 0, code 2.

#include <fmt/format.h>

#include <algorithm>

#include "conformance/cases/files.hpp"
#include "conformance/cases/iwarp/setup.hpp"

namespace rdmawire::conformance::iwarp::fpdu_crc_cases {
namespace {

constexpr std::string_view optimized_tcp =
    "An optimized TCP may drop the segment instead of reporting it, and wait for a retransmission: RFC 5044, 8.";

void append(ByteVector& to, const ByteVector& more) { to.insert(to.end(), more.begin(), more.end()); }

Stimulus flipped(const Stimulus& of, std::size_t at, const std::string& where) {
  return of.damaged([at](ByteVector& bytes) { bytes.at(at) ^= 0x10; }, "a bit flipped in " + where);
}
Stimulus flipped_crc(const Stimulus& of) {
  return of.damaged([](ByteVector& bytes) { bytes.back() ^= 0x01; }, "a bit flipped in the CRC");
}

// FPDUs sent by the device

// A Send of 24 zero bytes, MSN 1. Figure 5 of RFC 5044 shows the first marker, figure 6 another marker.
constexpr std::uint8_t send_of_zeros[] = {0x00, 0x2a, 0x41, 0x43, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0};

void require_bytes(IwarpBench& bench, const Connected& qp, std::size_t from, const ByteVector& expected,
                   const std::string& what) {
  const ByteVector& heard = qp.heard_bytes();
  bench.require(heard.size() >= from + expected.size() &&
                    std::equal(expected.begin(), expected.end(), heard.begin() + static_cast<std::ptrdiff_t>(from)),
                what, "other bytes");
}
void without_markers(IwarpBench& bench, const ConnectOptions& options) {
  Connected& qp = bench.connect(options);
  qp.fill(0, std::string(24, '\0'));
  qp.opens();
  qp.device_sends(1, 24);
  qp << a_send(1);
  ByteVector expected(std::begin(send_of_zeros), std::end(send_of_zeros));
  append(expected, ByteVector(24));
  append(expected, {0xb7, 0x24, 0x3e, 0xc3});
  require_bytes(bench, qp, 0, expected, "a Send of 24 zeros, with the CRC b7 24 3e c3");
}
void a_responders_crc(IwarpBench& bench) {
  bench.environment().fix(Parameter::markers, "the expected CRC is that of an FPDU without markers");
  without_markers(bench, {});
}
void an_initiators_crc(IwarpBench& bench) {
  bench.environment().fix(Parameter::markers, "the expected CRC is that of an FPDU without markers");
  without_markers(bench, {.device_initiates = true});
}
void figure_5(IwarpBench& bench) {
  Connected& qp = connect_with_markers(bench);
  qp.fill(0, std::string(24, '\0'));
  qp.opens();
  qp.device_sends(1, 24);
  qp << a_send(1);
  ByteVector expected{0, 0, 0, 0};
  append(expected, ByteVector(std::begin(send_of_zeros), std::end(send_of_zeros)));
  append(expected, ByteVector(24));
  append(expected, {0x52, 0x23, 0x99, 0x83});
  require_bytes(bench, qp, 0, expected, "the FPDU of figure 5, with the CRC 52 23 99 83");
}
void figure_6(IwarpBench& bench) {
  Connected& qp = connect_with_markers(bench);
  qp.fill(0, pattern_bytes(464) + std::string(24, '\0'));
  qp.opens();
  qp.device_sends(1, 464);  // 492 bytes with its marker
  qp.device_sends(2, 24, 464);
  qp << a_send(1) << a_send(2);
  ByteVector expected(std::begin(send_of_zeros), std::end(send_of_zeros));
  expected[15] = 2;
  append(expected, {0, 0, 0, 0x14});
  append(expected, ByteVector(24));
  append(expected, {0x84, 0x92, 0x58, 0x98});
  require_bytes(bench, qp, 492, expected, "the FPDU of figure 6, with the CRC 84 92 58 98");
}
void a_crc_after_a_pad(IwarpBench& bench) {
  bench.environment().fix(Parameter::markers, "the expected CRC is that of an FPDU without markers");
  Connected& qp = bench.connect();
  qp.fill(0, "hello");
  qp.opens();
  qp.device_sends(1, 5);
  qp << a_send(1);
  require_bytes(bench, qp, 0, {0x00, 0x17, 0x41, 0x43, 0,   0,   0,   0,   0,   0, 0, 0, 0,    0,    0,    1,
                               0,    0,    0,    0,    'h', 'e', 'l', 'l', 'o', 0, 0, 0, 0xb9, 0x90, 0xb1, 0x0c},
                "a Send of \"hello\", with the CRC b9 90 b1 0c");
}

// FPDUs received by the device

// 4.4, 8: this FPDU and all later ones are discarded.
void is_not_delivered(IwarpBench& bench, const ConnectOptions& options, const Stimulus& bad) {
  ConnectOptions with_receives = options;
  with_receives.receives = 2;
  Connected& qp = bench.connect(with_receives);
  // A responder must not send FPDUs before it has received one. 7.1.2 rule 4
  if (!options.device_initiates) qp.opens();
  ByteVector stream = qp.fpdu(bad);
  append(stream, qp.fpdu(send(2)));
  qp.say(stream, bad.text() + ", and Send, MSN 2, in one TCP segment");
  qp << a_terminate(2, 0, 0x02) << stream_closed();
  delivers_nothing(bench, qp);
}
void in_the_payload(IwarpBench& bench) {
  is_not_delivered(bench, {}, flipped(send(1, pattern_bytes(40)), 2 + 18 + 7, "the payload"));
}
void in_the_last_byte_of_the_payload(IwarpBench& bench) {
  is_not_delivered(bench, {}, flipped(send(1, pattern_bytes(40)), 2 + 18 + 39, "the last byte of the payload"));
}
void in_the_ddp_header(IwarpBench& bench) {
  is_not_delivered(bench, {}, flipped(send(1, pattern_bytes(40)), 2 + 9, "the queue number"));
}
void in_the_control_field(IwarpBench& bench) {
  is_not_delivered(bench, {}, flipped(send(1, pattern_bytes(40)), 2, "the control field"));
}
// A length that is 16 bytes too small, so that the FPDU seems to end earlier.
void in_the_length(IwarpBench& bench) {
  is_not_delivered(bench, {}, flipped(send(1, pattern_bytes(40)), 1, "the length"));
}
void in_the_pad(IwarpBench& bench) {
  is_not_delivered(bench, {}, flipped(send(1, pattern_bytes(41)), 2 + 18 + 41, "the pad"));
}
void in_the_crc(IwarpBench& bench) { is_not_delivered(bench, {}, flipped_crc(send(1, pattern_bytes(40)))); }
void to_an_initiator(IwarpBench& bench) {
  is_not_delivered(bench, {.device_initiates = true}, flipped_crc(send(1, pattern_bytes(40))));
}
// CRC32c in the wrong byte order.
void the_other_order(IwarpBench& bench) {
  const Stimulus turned = send(1, pattern_bytes(40))
                              .damaged([](ByteVector& bytes) { std::reverse(bytes.end() - 4, bytes.end()); },
                                       "with the bytes of its CRC in the other order");
  is_not_delivered(bench, {}, turned);
}
void after_a_good_one(IwarpBench& bench) {
  Connected& qp = bench.connect({.receives = 3});
  ByteVector stream = qp.fpdu(send(1));
  append(stream, qp.fpdu(flipped_crc(send(2))));
  append(stream, qp.fpdu(send(3)));
  qp.say(stream, "Sends, MSN 1 to 3, in one TCP segment, a bit flipped in the CRC of the second");
  qp.completes(0);
  qp << a_terminate(2, 0, 0x02) << stream_closed();
  delivers_nothing(bench, qp);
}
void the_last_segment_of_a_message(IwarpBench& bench) {
  Connected& qp = bench.connect({.receives = 1});
  qp >> send_part(1, 0, pattern_bytes(100), false) >> flipped_crc(send_part(1, 100, pattern_bytes(50), true));
  qp << a_terminate(2, 0, 0x02) << stream_closed();
  delivers_nothing(bench, qp);
}
// The CRC covers markers, too.
void in_a_marker(IwarpBench& bench) {
  wish_if_possible(bench, {.markers = true});
  Connected& qp = bench.connect({.receives = 1});
  with_markers(*qp.setup);
  qp.opens();  // 24 bytes with the first marker
  qp >> flipped(send(1, pattern_bytes(600)), 512 - 24, "the reserved bytes of its marker");
  qp << a_terminate(2, 0, 0x02) << stream_closed();
  delivers_nothing(bench, qp);
}

// 6: the CRC is checked before DDP processes the ULPDU.
void changes_no_memory(IwarpBench& bench, std::uint32_t at, bool in_crc) {
  Connected& qp = bench.connect({.receives = 1});
  qp.fill(0, pattern_bytes(512, 0x11));
  Stimulus bad = write(qp.stag(), qp.to(at), pattern_bytes(200, 0x77));
  bad = in_crc ? flipped_crc(bad) : flipped(bad, 2 + 14 + 100, "the payload");
  qp >> bad;
  ends_with_an_error(qp);
  qp.holds(0, pattern_bytes(512, 0x11));
}
void a_write_with_a_flipped_payload(IwarpBench& bench) { changes_no_memory(bench, 0, false); }
void a_write_with_a_flipped_crc(IwarpBench& bench) { changes_no_memory(bench, 100, true); }
void a_later_segment_of_a_write(IwarpBench& bench) {
  Connected& qp = bench.connect({.receives = 1});
  qp.fill(0, pattern_bytes(512, 0x11));
  qp >> write_part(qp.stag(), qp.to(), pattern_bytes(100, 0x77), false);
  qp >> flipped_crc(write_part(qp.stag(), qp.to(100), pattern_bytes(100, 0x99), true));
  ends_with_an_error(qp);
  qp.holds(100, pattern_bytes(512, 0x11).substr(100));
}
// The FPDU arrives in two TCP segments: a device that places the first one immediately has not checked the CRC.
void a_write_in_two_segments(IwarpBench& bench) {
  Connected& qp = bench.connect({.receives = 1});
  qp.fill(0, pattern_bytes(512, 0x11));
  qp.send_in_segments(qp.fpdu(flipped_crc(write(qp.stag(), qp.to(), pattern_bytes(200, 0x77)))), 120,
                      "an RDMA Write, a bit flipped in the CRC");
  ends_with_an_error(qp);
  qp.holds(0, pattern_bytes(512, 0x11));
}

// 4.1, 7.1.1 (C): the field is present with any value.
Stimulus with_crc(const Stimulus& of, std::uint32_t value) {
  return of.changed([value](Frame& frame) { frame.mpa_crc = value; }, fmt::format("with {:#x} as CRC", value));
}
void any_crc_is_taken(IwarpBench& bench, bool device_initiates) {
  wish_if_possible(bench, {.crc = false});
  Connected& qp = bench.connect({.device_initiates = device_initiates, .crc = false, .receives = 3});
  without_crc(*qp.setup);
  qp >> with_crc(send(1, pattern_bytes(21)), 0xdeadbeef) >>
      with_crc(write(qp.stag(), qp.to(), pattern_bytes(99)), 0x01020304) >>
      with_crc(send(2, pattern_bytes(22)), 0xffffffff) >> with_crc(send(3, pattern_bytes(23)), 0);
  for (const std::uint64_t receive : {0, 1, 2}) qp.completes(receive);
  qp.received(0, pattern_bytes(21));
  qp.received(1, pattern_bytes(22));
  qp.received(2, pattern_bytes(23));
  qp.holds(0, pattern_bytes(99));
}
void any_crc_to_a_responder(IwarpBench& bench) { any_crc_is_taken(bench, false); }
void any_crc_to_an_initiator(IwarpBench& bench) { any_crc_is_taken(bench, true); }

// 4.1: "ignored by the receiver (except for CRC checking)". Pads of 3, 2 and 1 bytes.
void any_pad_is_taken(IwarpBench& bench, bool crc) {
  if (!crc) wish_if_possible(bench, {.crc = false});
  Connected& qp = bench.connect({.crc = crc, .receives = 3});
  if (!crc) without_crc(*qp.setup);
  for (std::uint32_t msn = 1; msn <= 3; ++msn) {
    const std::uint32_t pad = 4 - msn;
    qp >> send(msn, pattern_bytes(msn))
              .changed([pad](Frame& frame) { frame.pad = ByteVector(pad, 0xff); }, "with a pad of ones");
  }
  for (const std::uint64_t receive : {0, 1, 2}) {
    const peer::Completion completion = qp.completes(receive);
    bench.require(completion.byte_len == receive + 1, fmt::format("{} bytes", receive + 1),
                  fmt::format("{}", completion.byte_len));
    qp.received(receive, pattern_bytes(receive + 1));
  }
}
void a_pad_of_ones(IwarpBench& bench) { any_pad_is_taken(bench, true); }
void a_pad_of_ones_without_crc(IwarpBench& bench) { any_pad_is_taken(bench, false); }

// 8: "MPA MUST NOT close the TCP connection following a reported error", so that one more message can leave.
void after_the_first_fpdu(IwarpBench& bench) {
  Connected& qp = bench.connect({.receives = 2});
  qp >> send(1);
  qp.completes(0);
  qp >> flipped_crc(send(2));
  qp << any_terminate();
}
void of_an_initiator(IwarpBench& bench) {
  Connected& qp = bench.connect({.device_initiates = true, .receives = 1});
  qp >> flipped_crc(send(1));
  qp << any_terminate();
}
// The marker before the second FPDU points into the first one.
void after_a_marker_that_disagrees(IwarpBench& bench) {
  wish_if_possible(bench, {.markers = true});
  Connected& qp = bench.connect({.receives = 2});
  with_markers(*qp.setup);
  qp >> send(1, pattern_bytes(484));  // 512 bytes with its marker
  qp.completes(0);
  ByteVector fpdu = qp.fpdu(send(2));
  fpdu[3] = 0x10;
  const std::uint32_t crc = compute_mpa_crc(Bytes(fpdu).first(fpdu.size() - 4));
  store_be(fpdu.data() + fpdu.size() - 4, 4, crc);
  qp.say(fpdu, "Send, MSN 2, after a marker with FPDUPTR 16");
  qp << any_terminate();
}

}  // namespace

std::span<const Case> all() {
  static constexpr Case cases[] = {
      {.rule = "fpdu.sender.crc.right", .variant = "responder", .run = a_responders_crc},
      {.rule = "fpdu.sender.crc.right", .variant = "initiator", .role = Role::requester, .run = an_initiators_crc},
      {.rule = "fpdu.sender.crc.right", .variant = "figure 5", .run = figure_5},
      {.rule = "fpdu.sender.crc.right", .variant = "figure 6", .run = figure_6},
      {.rule = "fpdu.sender.crc.right", .variant = "with a pad", .run = a_crc_after_a_pad},
      {.rule = "fpdu.receiver.crc.wrong",
       .variant = "in the payload",
       .run = in_the_payload,
       .possible_problems = optimized_tcp},
      {.rule = "fpdu.receiver.crc.wrong",
       .variant = "in the last byte of the payload",
       .run = in_the_last_byte_of_the_payload,
       .possible_problems = optimized_tcp},
      {.rule = "fpdu.receiver.crc.wrong",
       .variant = "in the DDP header",
       .run = in_the_ddp_header,
       .possible_problems = optimized_tcp},
      {.rule = "fpdu.receiver.crc.wrong",
       .variant = "in the control field",
       .run = in_the_control_field,
       .possible_problems = optimized_tcp},
      {.rule = "fpdu.receiver.crc.wrong",
       .variant = "in the length",
       .run = in_the_length,
       .possible_problems = optimized_tcp},
      {.rule = "fpdu.receiver.crc.wrong",
       .variant = "in the pad",
       .run = in_the_pad,
       .possible_problems = optimized_tcp},
      {.rule = "fpdu.receiver.crc.wrong",
       .variant = "in the CRC",
       .run = in_the_crc,
       .possible_problems = optimized_tcp},
      {.rule = "fpdu.receiver.crc.wrong",
       .variant = "reversed byte order",
       .run = the_other_order,
       .possible_problems = optimized_tcp},
      {.rule = "fpdu.receiver.crc.wrong",
       .variant = "between valid FPDUs",
       .run = after_a_good_one,
       .possible_problems = optimized_tcp},
      {.rule = "fpdu.receiver.crc.wrong",
       .variant = "the last segment of a message",
       .run = the_last_segment_of_a_message,
       .possible_problems = optimized_tcp},
      {.rule = "fpdu.receiver.crc.wrong",
       .variant = "in a marker",
       .run = in_a_marker,
       .possible_problems = optimized_tcp},
      {.rule = "fpdu.receiver.crc.wrong",
       .variant = "initiator",
       .role = Role::requester,
       .run = to_an_initiator,
       .possible_problems = optimized_tcp},
      {.rule = "fpdu.receiver.crc.checked-before-placement",
       .variant = "in the payload",
       .run = a_write_with_a_flipped_payload},
      {.rule = "fpdu.receiver.crc.checked-before-placement",
       .variant = "in the CRC",
       .run = a_write_with_a_flipped_crc},
      {.rule = "fpdu.receiver.crc.checked-before-placement",
       .variant = "a later segment of the message",
       .run = a_later_segment_of_a_write},
      {.rule = "fpdu.receiver.crc.checked-before-placement",
       .variant = "in two TCP segments",
       .run = a_write_in_two_segments},
      {.rule = "fpdu.receiver.crc.ignored-if-unused", .variant = "responder", .run = any_crc_to_a_responder},
      {.rule = "fpdu.receiver.crc.ignored-if-unused",
       .variant = "initiator",
       .role = Role::requester,
       .run = any_crc_to_an_initiator},
      {.rule = "fpdu.receiver.pad.ignored", .variant = "with CRCs", .run = a_pad_of_ones},
      {.rule = "fpdu.receiver.pad.ignored", .variant = "without CRCs", .run = a_pad_of_ones_without_crc},
      {.rule = "fpdu.receiver.error.one-more-message",
       .variant = "a bad CRC",
       .run = after_the_first_fpdu,
       .possible_problems = optimized_tcp},
      {.rule = "fpdu.receiver.error.one-more-message",
       .variant = "a bad CRC, initiator",
       .role = Role::requester,
       .run = of_an_initiator,
       .possible_problems = optimized_tcp},
      {.rule = "fpdu.receiver.error.one-more-message",
       .variant = "a marker with a wrong FPDUPTR",
       .run = after_a_marker_that_disagrees,
       .possible_problems = optimized_tcp},
  };
  return cases;
}

}  // namespace rdmawire::conformance::iwarp::fpdu_crc_cases
