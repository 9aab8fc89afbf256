/// FPDUs: RFC 5044, 3 and 4.5 (their length), 4.1 (their format), 5 and 6 (how a receiver finds them). RFC 5041,
/// 4.4 (a segment contains its header).

#include <fmt/format.h>

#include <algorithm>
#include <span>

#include "conformance/cases/files.hpp"
#include "conformance/cases/iwarp/setup.hpp"

namespace rdmawire::conformance::iwarp::fpdu_framing_cases {
namespace {

void append(ByteVector& to, const ByteVector& more) { to.insert(to.end(), more.begin(), more.end()); }

// 4.1. The pad makes the FPDU a multiple of four. The DDP header of a Send has 18 bytes, that of an RDMA Write 14.
struct Format {
  std::uint32_t payload;
  std::uint16_t ulpdu_length;
  std::uint32_t whole;
};
constexpr Format sends[] = {{1, 19, 28}, {2, 20, 28}, {3, 21, 28}, {4, 22, 28}, {5, 23, 32}, {8, 26, 32}};
constexpr Format writes[] = {{1, 15, 24}, {2, 16, 24}, {3, 17, 24}, {4, 18, 24}, {5, 19, 28}};

void has_the_format(IwarpBench& bench, const Connected& qp, const Seen& seen, const Format& expected) {
  const ByteVector whole(qp.heard_bytes().begin() + static_cast<std::ptrdiff_t>(seen.position),
                         qp.heard_bytes().begin() + static_cast<std::ptrdiff_t>(seen.end));
  const std::uint32_t length = whole[0] * 256U + whole[1];
  bench.require(length == expected.ulpdu_length && whole.size() == expected.whole,
                fmt::format("ULPDU_Length {}, {} bytes with pad and CRC", expected.ulpdu_length, expected.whole),
                fmt::format("ULPDU_Length {}, {} bytes", length, whole.size()));
  const bool zero = std::all_of(whole.begin() + 2 + expected.ulpdu_length, whole.end() - 4,
                                [](std::uint8_t byte) { return byte == 0; });
  bench.require(zero, "a pad of zeros", "others");
}
void the_device_sends_them(IwarpBench& bench, const ConnectOptions& options, std::span<const Format> formats,
                           RdmapOperation operation) {
  Connected& qp = bench.connect(options);
  if (!options.crc) without_crc(*qp.setup);
  qp.fill(0, pattern_bytes(16, 0xa5));
  qp.opens();
  std::uint64_t wr_id = 0;
  for (const Format& each : formats) {
    if (operation == RdmapOperation::send)
      qp.device_sends(++wr_id, each.payload);
    else
      qp.device_writes(++wr_id, each.payload);
    has_the_format(bench, qp, qp.wait(an(operation)), each);
  }
}
void sends_have_the_format(IwarpBench& bench) {
  bench.environment().fix(Parameter::markers, "the rule is about the fields of an FPDU without markers");
  the_device_sends_them(bench, {}, sends, RdmapOperation::send);
}
void writes_have_the_format(IwarpBench& bench) {
  bench.environment().fix(Parameter::markers, "the rule is about the fields of an FPDU without markers");
  the_device_sends_them(bench, {}, writes, RdmapOperation::rdma_write);
}
void an_initiators_sends_have_the_format(IwarpBench& bench) {
  bench.environment().fix(Parameter::markers, "the rule is about the fields of an FPDU without markers");
  the_device_sends_them(bench, {.device_initiates = true}, sends, RdmapOperation::send);
}
void sends_without_crc_have_the_format(IwarpBench& bench) {
  bench.environment().fix(Parameter::markers, "the rule is about the fields of an FPDU without markers");
  wish_if_possible(bench, {.crc = false});
  the_device_sends_them(bench, {.crc = false}, sends, RdmapOperation::send);
}

// 5 and 6: TCP segment boundaries are not significant.

void divided_at_every_byte(IwarpBench& bench, const ConnectOptions& options) {
  constexpr std::size_t whole = 36;  // length 2, DDP header 18, payload 9, pad 3, CRC 4
  ConnectOptions with_receives = options;
  with_receives.receives = whole;
  Connected& qp = bench.connect(with_receives);
  for (std::size_t at = 1; at < whole; ++at) {
    const auto msn = static_cast<std::uint32_t>(at);
    const std::string payload = pattern_bytes(9, static_cast<std::uint8_t>(at));
    const ByteVector fpdu = qp.fpdu(send(msn, payload));
    const auto middle = fpdu.begin() + static_cast<std::ptrdiff_t>(at);
    qp.say({fpdu.begin(), middle}, fmt::format("the first {} bytes of Send, MSN {}", at, msn));
    qp.say({middle, fpdu.end()}, "the others");
    qp.completes(at - 1);
    qp.received(at - 1, payload);
  }
}
void in_two_segments(IwarpBench& bench) { divided_at_every_byte(bench, {}); }
void in_two_segments_to_an_initiator(IwarpBench& bench) { divided_at_every_byte(bench, {.device_initiates = true}); }

// `count` Sends of `payload` bytes, as one stream in TCP segments of `each` bytes.
void a_stream_in_pieces(IwarpBench& bench, std::uint32_t count, std::uint32_t payload, std::size_t each) {
  Connected& qp = bench.connect({.receives = count, .receive_bytes = 1400});
  ByteVector stream;
  for (std::uint32_t msn = 1; msn <= count; ++msn)
    append(stream, qp.fpdu(send(msn, pattern_bytes(payload, static_cast<std::uint8_t>(msn)))));
  qp.send_in_segments(stream, each, fmt::format("{} Sends of {} bytes", count, payload));
  for (std::uint32_t i = 0; i < count; ++i) {
    qp.completes(i);
    qp.received(i, pattern_bytes(payload, static_cast<std::uint8_t>(i + 1)));
  }
}
void byte_by_byte(IwarpBench& bench) { a_stream_in_pieces(bench, 3, 41, 1); }
void many_in_one_segment(IwarpBench& bench) { a_stream_in_pieces(bench, 30, 10, 1448); }
void seven_bytes_a_segment(IwarpBench& bench) { a_stream_in_pieces(bench, 12, 33, 7); }
void segments_that_end_anywhere(IwarpBench& bench) { a_stream_in_pieces(bench, 20, 333, 1001); }
void longer_than_a_segment(IwarpBench& bench) { a_stream_in_pieces(bench, 4, 1400, 500); }
void a_length_in_two_segments(IwarpBench& bench) {
  Connected& qp = bench.connect({.receives = 2});
  ByteVector stream = qp.fpdu(send(1));
  const auto first_end = static_cast<std::ptrdiff_t>(stream.size());
  append(stream, qp.fpdu(send(2)));
  qp.say({stream.begin(), stream.begin() + first_end + 1}, "Send, MSN 1, and a byte of the next length");
  qp.completes(0);
  qp.say({stream.begin() + first_end + 1, stream.end()}, "the rest of Send, MSN 2");
  qp.completes(1);
}
void a_write_in_pieces(IwarpBench& bench) {
  Connected& qp = bench.connect({.receives = 1});
  const std::string whole = pattern_bytes(3000);
  ByteVector stream = qp.fpdu(write_part(qp.stag(), qp.to(), whole.substr(0, 1400), false));
  append(stream, qp.fpdu(write_part(qp.stag(), qp.to(1400), whole.substr(1400, 1400), false)));
  append(stream, qp.fpdu(write_part(qp.stag(), qp.to(2800), whole.substr(2800), true)));
  append(stream, qp.fpdu(send(1)));
  qp.send_in_segments(stream, 13, "an RDMA Write of three segments, and a Send");
  qp.completes(0);
  qp.holds(0, whole);
}
// Marker positions depend only on the byte stream.
void markers_in_pieces(IwarpBench& bench, std::size_t each) {
  wish_if_possible(bench, {.markers = true});
  Connected& qp = bench.connect({.receives = 3});
  with_markers(*qp.setup);
  ByteVector stream;
  for (std::uint32_t msn = 1; msn <= 3; ++msn) append(stream, qp.fpdu(send(msn, pattern_bytes(700, msn & 0xffU))));
  qp.send_in_segments(stream, each, "three Sends with markers");
  for (std::uint32_t i = 0; i < 3; ++i) {
    qp.completes(i);
    qp.received(i, pattern_bytes(700, (i + 1) & 0xffU));
  }
}
void markers_byte_by_byte(IwarpBench& bench) { markers_in_pieces(bench, 1); }
void segments_that_end_inside_of_markers(IwarpBench& bench) { markers_in_pieces(bench, 514); }

// A ULPDU that ends early. RFC 5041, 4.4: the header of a tagged segment has 14 bytes, that of an untagged one 18.

Stimulus ulpdu(const std::string& bytes_of_it, const std::string& text) {
  Frame frame;
  frame /= Value<Fpdu>();
  frame.payload.assign(bytes_of_it.begin(), bytes_of_it.end());
  return {std::move(frame), fmt::format("{}: a ULPDU of {} bytes", text, bytes_of_it.size())};
}
/// The ULPDU of a complete FPDU without markers, truncated to `count` bytes.
std::string ulpdu_of(const ByteVector& fpdu, std::size_t count) {
  return {fpdu.begin() + 2, fpdu.begin() + 2 + static_cast<std::ptrdiff_t>(count)};
}
void ends_the_stream(IwarpBench& bench, bool tagged, std::size_t count) {
  Connected& qp = bench.connect({.receives = 2});
  qp.fill(0, pattern_bytes(256, 0x11));
  // Used only to encode. Nothing is sent.
  MpaSender apart({});
  ByteVector whole;
  const Stimulus segment =
      tagged ? write(qp.stag(), qp.to(), pattern_bytes(64, 0x99)) : send(1, pattern_bytes(64, 0x99));
  apart.send(whole, segment.frame());
  qp >> ulpdu(ulpdu_of(whole, count), tagged ? "a truncated RDMA Write" : "a truncated Send");
  ends_with_an_error(qp);
  delivers_nothing(bench, qp);
  qp.holds(0, pattern_bytes(256, 0x11));
}
template <bool tagged, std::size_t count>
void a_header_of(IwarpBench& bench) {
  ends_the_stream(bench, tagged, count);
}
// 28 bytes of Read Request header are required after the DDP header.
void a_read_request_that_is_truncated(IwarpBench& bench) {
  Connected& qp = bench.connect({});
  MpaSender apart({});
  ByteVector whole;
  apart.send(whole, read_request(1, {.source_stag = qp.stag(), .source_to = qp.to()}).frame());
  qp >> ulpdu(ulpdu_of(whole, 18 + 27), "a truncated RDMA Read Request");
  ends_with_an_error(qp);
}

void no_bytes(IwarpBench& bench) {
  Connected& qp = bench.connect({.receives = 1});
  qp >> ulpdu("", "nothing");
  ends_with_an_error(qp);
  delivers_nothing(bench, qp);
}
void no_bytes_between_others(IwarpBench& bench) {
  Connected& qp = bench.connect({.receives = 2});
  ByteVector stream = qp.fpdu(send(1));
  append(stream, qp.fpdu(ulpdu("", "nothing")));
  append(stream, qp.fpdu(send(2)));
  qp.say(stream, "Send, MSN 1, a ULPDU of no bytes, and Send, MSN 2");
  qp.completes(0);
  ends_with_an_error(qp);
  delivers_nothing(bench, qp);
}

// 4.5. Without markers MULPDU = EMSS - (6 + EMSS mod 4), with them EMSS - (6 + 4 * ceiling(EMSS / 512) + EMSS mod 4);
// at least 128. TCP options reduce EMSS further.

enum class Message : std::uint8_t { write, send, response };
std::uint32_t longest(Connected& qp, Message message, std::uint64_t wr_id) {
  constexpr std::uint32_t length = 4096;
  RdmapOperation operation = RdmapOperation::rdma_write;
  switch (message) {
    case Message::write: qp.device_writes(wr_id, length); break;
    case Message::send:
      qp.device_sends(wr_id, length);
      operation = RdmapOperation::send;
      break;
    case Message::response:
      qp >> read_request(static_cast<std::uint32_t>(wr_id),
                         {.size = length, .source_stag = qp.stag(), .source_to = qp.to()});
      operation = RdmapOperation::read_response;
      break;
  }
  std::uint32_t most = 0;
  for (const Seen& seen : qp.message(operation)) most = std::max(most, seen.ulpdu_bytes());
  return most;
}
void is_within(IwarpBench& bench, std::uint32_t mss, bool markers, Message message, std::uint32_t mulpdu) {
  const ConnectOptions options{.mss = mss};
  Connected& qp = markers ? connect_with_markers(bench, options) : bench.connect(options);
  qp.opens();
  const std::uint32_t most = longest(qp, message, 1);
  bench.require(most <= mulpdu, fmt::format("ULPDUs of at most {} bytes, with TCP segments of {}", mulpdu, mss),
                fmt::format("a ULPDU of {} bytes", most));
  bench.note(fmt::format("the longest ULPDU has {} bytes", most));
}
template <std::uint32_t mss, std::uint32_t mulpdu, Message message = Message::write>
void without_markers(IwarpBench& bench) {
  is_within(bench, mss, false, message, mulpdu);
}
template <std::uint32_t mss, std::uint32_t mulpdu>
void among_markers(IwarpBench& bench) {
  is_within(bench, mss, true, Message::write, mulpdu);
}

// The largest segment has the maximum length: DDP "SHOULD provide ULPDUs that are as large as possible".
void follows(IwarpBench& bench, Connected& qp, std::uint64_t wr_id, std::uint32_t mulpdu) {
  const std::uint32_t most = longest(qp, Message::send, wr_id);
  bench.require(most == mulpdu, fmt::format("the longest ULPDU of {} bytes", mulpdu), fmt::format("{}", most));
}
void change_segments(IwarpBench& bench, std::uint32_t bytes_of_each) {
  if (!bench.device().change_segments)
    end_case(Verdict::unsupported, "the size of this device's TCP segments cannot be changed from outside");
  bench.device().change_segments(bytes_of_each);
  bench.note(fmt::format("the device's TCP segments have {} bytes from now on", bytes_of_each));
}
void to_fewer_and_back(IwarpBench& bench) {
  bench.environment().fix(Parameter::mss, "the rule is about changes of the segment size");
  bench.environment().fix(Parameter::markers, "markers reduce the length of an FPDU");
  Connected& qp = bench.connect();
  qp.opens();
  follows(bench, qp, 1, 1454);
  change_segments(bench, 535);  // 6 + 535 mod 4 = 9
  follows(bench, qp, 2, 526);
  change_segments(bench, 1460);
  follows(bench, qp, 3, 1454);
}
void to_fewer_among_markers(IwarpBench& bench) {
  bench.environment().fix(Parameter::mss, "the rule is about changes of the segment size");
  bench.environment().fix(Parameter::markers, "markers reduce the length of an FPDU");
  Connected& qp = connect_with_markers(bench);
  qp.opens();
  follows(bench, qp, 1, 1442);
  change_segments(bench, 1024);  // 6 + two markers = 14
  follows(bench, qp, 2, 1010);
}
void to_less_than_128(IwarpBench& bench) {
  bench.environment().fix(Parameter::mss, "the rule is about changes of the segment size");
  bench.environment().fix(Parameter::markers, "markers reduce the length of an FPDU");
  Connected& qp = bench.connect();
  qp.opens();
  change_segments(bench, 100);
  follows(bench, qp, 1, 128);
}

}  // namespace

std::span<const Case> all() {
  static constexpr Case cases[] = {
      {.rule = "fpdu.sender.format.length-pad-crc", .variant = "Sends", .run = sends_have_the_format},
      {.rule = "fpdu.sender.format.length-pad-crc", .variant = "RDMA Writes", .run = writes_have_the_format},
      {.rule = "fpdu.sender.format.length-pad-crc",
       .variant = "an initiator's Sends",
       .role = Role::requester,
       .run = an_initiators_sends_have_the_format},
      {.rule = "fpdu.sender.format.length-pad-crc",
       .variant = "without CRCs",
       .run = sends_without_crc_have_the_format},
      {.rule = "fpdu.receiver.stream.any-segmentation",
       .variant = "two segments, at every byte",
       .run = in_two_segments},
      {.rule = "fpdu.receiver.stream.any-segmentation",
       .variant = "two segments, at every byte, initiator",
       .role = Role::requester,
       .run = in_two_segments_to_an_initiator},
      {.rule = "fpdu.receiver.stream.any-segmentation", .variant = "a byte a segment", .run = byte_by_byte},
      {.rule = "fpdu.receiver.stream.any-segmentation", .variant = "thirty in one segment", .run = many_in_one_segment},
      {.rule = "fpdu.receiver.stream.any-segmentation",
       .variant = "seven bytes a segment",
       .run = seven_bytes_a_segment},
      {.rule = "fpdu.receiver.stream.any-segmentation",
       .variant = "arbitrary segment boundaries",
       .run = segments_that_end_anywhere},
      {.rule = "fpdu.receiver.stream.any-segmentation",
       .variant = "FPDUs of three segments",
       .run = longer_than_a_segment},
      {.rule = "fpdu.receiver.stream.any-segmentation",
       .variant = "within the length after another FPDU",
       .run = a_length_in_two_segments},
      {.rule = "fpdu.receiver.stream.any-segmentation",
       .variant = "an RDMA Write, thirteen bytes a segment",
       .run = a_write_in_pieces},
      {.rule = "fpdu.receiver.stream.any-segmentation",
       .variant = "markers, a byte a segment",
       .run = markers_byte_by_byte},
      {.rule = "fpdu.receiver.stream.any-segmentation",
       .variant = "segment boundaries within markers",
       .run = segments_that_end_inside_of_markers},
      {.rule = "fpdu.receiver.length.shorter-than-header", .variant = "tagged, 1 byte", .run = a_header_of<true, 1>},
      {.rule = "fpdu.receiver.length.shorter-than-header", .variant = "tagged, 2 bytes", .run = a_header_of<true, 2>},
      {.rule = "fpdu.receiver.length.shorter-than-header", .variant = "tagged, 6 bytes", .run = a_header_of<true, 6>},
      {.rule = "fpdu.receiver.length.shorter-than-header", .variant = "tagged, 13 bytes", .run = a_header_of<true, 13>},
      {.rule = "fpdu.receiver.length.shorter-than-header",
       .variant = "untagged, 2 bytes",
       .run = a_header_of<false, 2>},
      {.rule = "fpdu.receiver.length.shorter-than-header",
       .variant = "untagged, 14 bytes",
       .run = a_header_of<false, 14>},
      {.rule = "fpdu.receiver.length.shorter-than-header",
       .variant = "untagged, 17 bytes",
       .run = a_header_of<false, 17>},
      {.rule = "fpdu.receiver.length.shorter-than-header",
       .variant = "RDMA Read Request",
       .run = a_read_request_that_is_truncated},
      {.rule = "fpdu.receiver.length.zero", .variant = "the first FPDU", .run = no_bytes},
      {.rule = "fpdu.receiver.length.zero", .variant = "between others", .run = no_bytes_between_others},
      {.rule = "fpdu.sender.length.within-mulpdu", .variant = "EMSS 1460", .run = without_markers<1460, 1454>},
      {.rule = "fpdu.sender.length.within-mulpdu",
       .variant = "EMSS 1460, Send",
       .run = without_markers<1460, 1454, Message::send>},
      {.rule = "fpdu.sender.length.within-mulpdu",
       .variant = "EMSS 1460, RDMA Read Response",
       .run = without_markers<1460, 1454, Message::response>},
      {.rule = "fpdu.sender.length.within-mulpdu", .variant = "EMSS 1461", .run = without_markers<1461, 1454>},
      {.rule = "fpdu.sender.length.within-mulpdu", .variant = "EMSS 1459", .run = without_markers<1459, 1450>},
      {.rule = "fpdu.sender.length.within-mulpdu", .variant = "EMSS 536", .run = without_markers<536, 530>},
      {.rule = "fpdu.sender.length.within-mulpdu", .variant = "EMSS 100", .run = without_markers<100, 128>},
      {.rule = "fpdu.sender.length.within-mulpdu", .variant = "EMSS 1460, markers", .run = among_markers<1460, 1442>},
      {.rule = "fpdu.sender.length.within-mulpdu", .variant = "EMSS 512, markers", .run = among_markers<512, 502>},
      {.rule = "fpdu.sender.length.within-mulpdu", .variant = "EMSS 513, markers", .run = among_markers<513, 498>},
      {.rule = "fpdu.sender.length.follows-emss", .variant = "smaller EMSS, and back", .run = to_fewer_and_back},
      {.rule = "fpdu.sender.length.follows-emss", .variant = "smaller EMSS, markers", .run = to_fewer_among_markers},
      {.rule = "fpdu.sender.length.follows-emss", .variant = "EMSS below 128", .run = to_less_than_128},
  };
  return cases;
}

}  // namespace rdmawire::conformance::iwarp::fpdu_framing_cases
