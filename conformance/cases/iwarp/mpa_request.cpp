/// MPA Request Frames: RFC 5044, 7.1.1 (the frame), 7.1.2 (the negotiation rules), RFC 6581, 6. The reactions of a
/// responder, and the frames of an initiator.

#include <fmt/format.h>

#include "conformance/cases/files.hpp"
#include "conformance/cases/iwarp/setup.hpp"

namespace rdmawire::conformance::iwarp::mpa_request_cases {
namespace {

// 7.1.2 rules 8 and 10 require a "reasonable" timeout. This value is rdmawire's. siw uses 10 seconds.
constexpr std::int64_t reasonable = 45'000'000'000;

// Requests sent by the device

void checked_request(IwarpBench& bench, Connected& qp, const std::string& private_data) {
  const Seen request = qp.wait(a_request());
  const View<MpaFrame> frame = frame_in(request);
  const std::uint8_t flags = request.bytes[16], revision = request.bytes[17];
  // M, C, and S in revision 2 are implementation-defined.
  const std::uint8_t zero = revision == 1 ? 0x3f : 0x2f;
  bench.require((flags & zero) == 0, fmt::format("R and every reserved bit 0 ({:#04x} of the flags)", zero),
                fmt::format("flags {:#04x}", flags));
  bench.require(revision == 1 || revision == 2, "revision 1 or 2", request.text());
  const bool enhanced = frame.get<"enhanced">() != 0;
  if (enhanced) enhanced_in(bench, request);
  const std::string found = private_data_in(request).substr(enhanced ? 4 : 0);
  bench.require(found == private_data, fmt::format("the application's {} bytes of private data", private_data.size()),
                fmt::format("{} others", found.size()));
  // The frame ends where PD_Length indicates.
  qp << silence();
}
void a_request_has_the_format(IwarpBench& bench) { checked_request(bench, asking(bench), ""); }
void a_request_has_private_data(IwarpBench& bench) {
  checked_request(bench, asking(bench, {.device_private_data = pattern_bytes(100)}), pattern_bytes(100));
}
// PD_Length includes the enhanced data: 256 and more.
void a_request_has_much_private_data(IwarpBench& bench) {
  checked_request(bench, asking(bench, {.device_private_data = pattern_bytes(255)}), pattern_bytes(255));
}
// The flags of revision 1 have five reserved bits.
void a_request_of_revision_1_has_the_format(IwarpBench& bench) {
  bench.wish({.revision = 1});
  Connected& qp = asking(bench, {.device_private_data = "hello"});
  checked_request(bench, qp, "hello");
}

// Requests on which a responder closes the connection

void is_closed_on(IwarpBench& bench, const ByteVector& bytes, const std::string& text) {
  Connected& qp = dialled(bench);
  qp.say(bytes, text);
  qp << stream_closed();
  expect_no_connect_request(bench, qp);
}
void another_key(IwarpBench& bench) {
  is_closed_on(bench, mpa_frame("GET / HTTP/1.0\r\n", mpa_flag::crc, 1), "a frame of another protocol");
}
void a_key_with_another_last_byte(IwarpBench& bench) {
  is_closed_on(bench, mpa_frame("MPA ID Req Framf", mpa_flag::crc, 1), "a request with another last letter of the key");
}
void a_key_with_another_case(IwarpBench& bench) {
  is_closed_on(bench, mpa_frame("MPA ID req Frame", mpa_flag::crc, 1), "a request with a lower case letter in its key");
}
void a_reply_in_place_of_the_request(IwarpBench& bench) {
  is_closed_on(bench, mpa_reply(mpa_flag::crc, 1), "MPA Reply Frame");
}
void revision_3(IwarpBench& bench) { is_closed_on(bench, mpa_request(mpa_flag::crc, 3), "a request of revision 3"); }
void revision_255(IwarpBench& bench) {
  is_closed_on(bench, mpa_request(mpa_flag::crc, 255), "a request of revision 255");
}
void private_data_of_513_bytes(IwarpBench& bench) {
  is_closed_on(bench, mpa_request(mpa_flag::crc, 1, pattern_bytes(513)), "a request with 513 bytes of private data");
}
// The length is a sufficient reason to reject, so the device need not wait for the announced data.
void a_private_data_length_of_65535(IwarpBench& bench) {
  is_closed_on(bench, mpa_request(mpa_flag::crc, 1, pattern_bytes(512), 65535), "a request with a PD_Length of 65535");
}
void less_private_data_than_announced(IwarpBench& bench, bool at_once) {
  Connected& qp = dialled(bench);
  // The device now waits for the frame.
  if (!at_once) bench.pass(bench.patience().silence);
  qp.say(mpa_request(mpa_flag::crc, 1, pattern_bytes(3), 10), "a request with a PD_Length of 10 followed by 3 bytes");
  if (!at_once) qp << silence();
  qp.finish();
  qp << stream_closed();
  expect_no_connect_request(bench, qp);
}
void less_and_a_fin_later(IwarpBench& bench) { less_private_data_than_announced(bench, false); }
// The FIN may arrive before the device has processed its new TCP connection.
void less_and_a_fin_at_once(IwarpBench& bench) { less_private_data_than_announced(bench, true); }
// The initiator must not send data between its request and the reply.
void more_private_data_than_announced(IwarpBench& bench) {
  is_closed_on(bench, mpa_request(mpa_flag::crc, 1, pattern_bytes(10), 3),
               "a request with a PD_Length of 3 followed by 10 bytes");
}

// Requests on which a responder times out

void silence_in_place_of_the_request(IwarpBench& bench) {
  Connected& qp = dialled(bench);
  static_cast<void>(qp.wait(stream_closed(), reasonable));
  expect_no_connect_request(bench, qp);
}
void stops_after(IwarpBench& bench, const ByteVector& bytes, const std::string& text) {
  Connected& qp = dialled(bench);
  qp.say(bytes, text);
  static_cast<void>(qp.wait(stream_closed(), reasonable));
  expect_no_connect_request(bench, qp);
}
void a_partial_key(IwarpBench& bench) { stops_after(bench, {'M', 'P', 'A', ' ', 'I', 'D', ' '}, "7 bytes of the key"); }
void private_data_that_does_not_come(IwarpBench& bench) {
  stops_after(bench, mpa_request(mpa_flag::crc, 1, pattern_bytes(3), 10),
              "a request with a PD_Length of 10 followed by 3 bytes");
}

// Requests that a responder accepts

void accepted(IwarpBench& bench, Connected& qp) {
  bench.accepts(qp);
  bench.operates(qp);
  bench.expect_event(qp, "established");
  arrives(qp, 1, 0);
}
void is_accepted(IwarpBench& bench, const ByteVector& bytes, const std::string& text) {
  Connected& qp = dialled(bench, {.receives = 1});
  qp.say(bytes, text);
  accepted(bench, qp);
}
void in_pieces(IwarpBench& bench, const ConnectOptions& options, std::size_t each) {
  ConnectOptions with_receive = options;
  with_receive.receives = 1;
  Connected& qp = dialled(bench, with_receive);
  qp.send_in_segments(IwarpBench::frame_of(options), each, "MPA Request Frame");
  accepted(bench, qp);
}
void byte_by_byte(IwarpBench& bench) { in_pieces(bench, {}, 1); }
void byte_by_byte_with_private_data(IwarpBench& bench) { in_pieces(bench, {.private_data = pattern_bytes(30)}, 1); }
void byte_by_byte_enhanced(IwarpBench& bench) {
  in_pieces(bench, {.enhanced = Enhanced{}, .private_data = pattern_bytes(3)}, 1);
}
void divided_after_the_fixed_part(IwarpBench& bench) { in_pieces(bench, {.private_data = pattern_bytes(18)}, 20); }

void each_reserved_bit(IwarpBench& bench) {
  for (const std::uint8_t bit : {0x08, 0x04, 0x02, 0x01})
    is_accepted(bench, mpa_request(mpa_flag::crc | bit, 1),
                fmt::format("a request with the reserved bit {:#04x}", bit));
}
void all_reserved_bits_of_revision_2(IwarpBench& bench) {
  is_accepted(bench, mpa_request(mpa_flag::crc | mpa_flag::enhanced | 0x0f, 2, enhanced_data({})),
              "an enhanced request with every reserved bit");
}
void a_request_with_r(IwarpBench& bench) {
  is_accepted(bench, mpa_request(mpa_flag::crc | mpa_flag::reject, 1), "a request with R = 1");
}
void an_enhanced_request_with_r(IwarpBench& bench) {
  is_accepted(bench, mpa_request(mpa_flag::crc | mpa_flag::reject | mpa_flag::enhanced, 2, enhanced_data({})),
              "an enhanced request with R = 1");
}

void a_request_with_private_data(IwarpBench& bench, std::size_t count) {
  Connected& qp = dialled(bench, {.private_data = pattern_bytes(count), .receives = 1});
  qp.say(IwarpBench::frame_of(qp.options), fmt::format("MPA Request Frame with {} bytes of private data", count));
  bench.accepts(qp);
  const peer::ByteVector& received = qp.cm.request().private_data;
  bench.require(std::string(received.begin(), received.end()) == pattern_bytes(count),
                fmt::format("an application notified with {} bytes", count),
                fmt::format("notified with {} bytes", received.size()));
  bench.operates(qp);
  bench.expect_event(qp, "established");
  arrives(qp, 1, 0);
}
template <std::size_t count>
void a_request_with_private_data(IwarpBench& bench) {
  a_request_with_private_data(bench, count);
}

}  // namespace

std::span<const Case> all() {
  static constexpr Case cases[] = {
      {.rule = "mpa.initiator.request.format",
       .variant = "without private data",
       .role = Role::requester,
       .run = a_request_has_the_format},
      {.rule = "mpa.initiator.request.format",
       .variant = "with private data",
       .role = Role::requester,
       .run = a_request_has_private_data},
      {.rule = "mpa.initiator.request.format",
       .variant = "with 255 bytes of private data",
       .role = Role::requester,
       .run = a_request_has_much_private_data},
      {.rule = "mpa.initiator.request.format",
       .variant = "revision 1",
       .role = Role::requester,
       .run = a_request_of_revision_1_has_the_format},
      {.rule = "mpa.receiver.key.wrong", .variant = "another protocol", .run = another_key},
      {.rule = "mpa.receiver.key.wrong", .variant = "the last byte", .run = a_key_with_another_last_byte},
      {.rule = "mpa.receiver.key.wrong", .variant = "upper and lower case", .run = a_key_with_another_case},
      {.rule = "mpa.receiver.key.wrong", .variant = "key of a reply", .run = a_reply_in_place_of_the_request},
      {.rule = "mpa.responder.request.never-comes", .run = silence_in_place_of_the_request},
      {.rule = "mpa.responder.request.byte-by-byte", .variant = "without private data", .run = byte_by_byte},
      {.rule = "mpa.responder.request.byte-by-byte",
       .variant = "with private data",
       .run = byte_by_byte_with_private_data},
      {.rule = "mpa.responder.request.byte-by-byte", .variant = "enhanced", .run = byte_by_byte_enhanced},
      {.rule = "mpa.responder.request.byte-by-byte",
       .variant = "private data in a segment of its own",
       .run = divided_after_the_fixed_part},
      {.rule = "mpa.receiver.frame.never-ends", .variant = "inside the key", .run = a_partial_key},
      {.rule = "mpa.receiver.frame.never-ends",
       .variant = "inside the private data",
       .run = private_data_that_does_not_come},
      {.rule = "mpa.receiver.revision.unknown", .variant = "3", .run = revision_3},
      {.rule = "mpa.receiver.revision.unknown", .variant = "255", .run = revision_255},
      {.rule = "mpa.receiver.reserved.unchecked", .variant = "each bit", .run = each_reserved_bit},
      {.rule = "mpa.receiver.reserved.unchecked",
       .variant = "all bits of revision 2",
       .run = all_reserved_bits_of_revision_2},
      {.rule = "mpa.responder.request.reject-bit-unchecked", .variant = "revision 1", .run = a_request_with_r},
      {.rule = "mpa.responder.request.reject-bit-unchecked", .variant = "enhanced", .run = an_enhanced_request_with_r},
      {.rule = "mpa.receiver.private-data.handed-on", .variant = "none", .run = a_request_with_private_data<0>},
      {.rule = "mpa.receiver.private-data.handed-on", .variant = "1 byte", .run = a_request_with_private_data<1>},
      {.rule = "mpa.receiver.private-data.handed-on", .variant = "255 bytes", .run = a_request_with_private_data<255>},
      {.rule = "mpa.receiver.private-data.handed-on",
       .variant = "256 bytes",
       .run = a_request_with_private_data<256>,
       .caution = RunPolicy::dangerous},
      {.rule = "mpa.receiver.private-data.handed-on",
       .variant = "257 bytes",
       .run = a_request_with_private_data<257>,
       .caution = RunPolicy::dangerous},
      {.rule = "mpa.receiver.private-data.handed-on",
       .variant = "512 bytes",
       .run = a_request_with_private_data<512>,
       .caution = RunPolicy::dangerous},
      {.rule = "mpa.receiver.private-data.too-long",
       .variant = "513 bytes",
       .run = private_data_of_513_bytes,
       .caution = RunPolicy::dangerous},
      {.rule = "mpa.receiver.private-data.too-long",
       .variant = "a length of 65535",
       .run = a_private_data_length_of_65535,
       .caution = RunPolicy::dangerous},
      {.rule = "mpa.receiver.private-data.length-mismatch",
       .variant = "fewer bytes, then a FIN",
       .run = less_and_a_fin_later,
       .caution = RunPolicy::dangerous},
      {.rule = "mpa.receiver.private-data.length-mismatch",
       .variant = "fewer bytes, with a FIN",
       .run = less_and_a_fin_at_once,
       .caution = RunPolicy::dangerous},
      {.rule = "mpa.receiver.private-data.length-mismatch",
       .variant = "more bytes",
       .run = more_private_data_than_announced,
       .caution = RunPolicy::dangerous},
  };
  return cases;
}

}  // namespace rdmawire::conformance::iwarp::mpa_request_cases
