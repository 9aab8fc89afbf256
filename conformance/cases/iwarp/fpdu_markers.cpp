/// Markers: RFC 5044, 4.2 (format), 4.3 (positions and content), 7.1.1 M and 7.1.2 rule 7 (which direction has them), 8
/// code 3 (agreement with the lengths).

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <functional>

#include "conformance/cases/files.hpp"
#include "conformance/cases/iwarp/setup.hpp"

namespace rdmawire::conformance::iwarp::fpdu_markers_cases {
namespace {

// Markers sent by the device

/// Returns `count` unchanged bytes of the device's stream.
ByteVector heard(const Connected& qp, std::size_t from, std::size_t count) {
  const ByteVector& all = qp.heard_bytes();
  const auto begin = all.begin() + static_cast<std::ptrdiff_t>(std::min(from, all.size()));
  return {begin, begin + static_cast<std::ptrdiff_t>(std::min(count, all.size() - std::min(from, all.size())))};
}
void stands(IwarpBench& bench, const Connected& qp, std::size_t at, const ByteVector& expected) {
  const ByteVector found = heard(qp, at, expected.size());
  bench.require(found == expected, fmt::format("at byte {} of the stream: {:02x}", at, fmt::join(expected, " ")),
                fmt::format("{:02x}", fmt::join(found, " ")));
}

// 7.1.2 rule 7.
void first_a_marker(IwarpBench& bench, const ConnectOptions& options) {
  Connected& qp = connect_with_markers(bench, options);
  qp.opens();
  qp.device_sends(1, 8);
  qp << a_send(1);
  // The marker, a ULPDU_Length of 26, the control bytes of DDP and RDMAP.
  stands(bench, qp, 0, {0x00, 0x00, 0x00, 0x00, 0x00, 0x1a, 0x41, 0x43});
}
void a_responders_first_bytes(IwarpBench& bench) { first_a_marker(bench, {}); }
void an_initiators_first_bytes(IwarpBench& bench) { first_a_marker(bench, {.device_initiates = true}); }
void first_bytes_without_crc(IwarpBench& bench) {
  wish_if_possible(bench, {.crc = false});
  first_a_marker(bench, {.crc = false});
}

// 4.2 and 4.3, for each received marker: RESERVED is 0. FPDUPTR is the distance from the length field, or 0 if the
// marker precedes it.
void is_right(IwarpBench& bench, const Seen& seen) {
  for (const auto& marker : seen.markers) {
    const std::uint64_t length_at = seen.position + (seen.position % 512 == 0 ? 4 : 0);
    const std::uint64_t expected = marker.position < length_at ? 0 : marker.position - length_at;
    bench.require(marker.position % 512 == 0 && marker.value == expected,
                  fmt::format("a marker {:#010x} at byte {}", expected, marker.position),
                  fmt::format("{:#010x}", marker.value));
  }
}
void stand_every_512_bytes(IwarpBench& bench, const ConnectOptions& options, std::uint32_t count, std::uint32_t step) {
  Connected& qp = connect_with_markers(bench, options);
  qp.fill(0, pattern_bytes(2048));
  qp.opens();
  std::uint64_t markers = 0;
  for (std::uint32_t i = 0; i < count; ++i) {
    const std::uint32_t length = 1 + i * step % 2048;
    qp.device_sends(i, length);
    std::string payload;
    for (const Seen& seen : qp.message(RdmapOperation::send)) {
      is_right(bench, seen);
      markers += seen.markers.size();
      payload += seen.payload();
    }
    bench.require(payload == pattern_bytes(length), fmt::format("the {} bytes that were posted", length), "others");
    qp.completes(i);
  }
  const std::uint64_t expected = (qp.heard() + 511) / 512;
  bench.require(markers == expected, fmt::format("{} markers in {} bytes", expected, qp.heard()),
                fmt::format("{}", markers));
}
void messages_of_many_sizes(IwarpBench& bench) { stand_every_512_bytes(bench, {}, 60, 37); }
void small_messages(IwarpBench& bench) { stand_every_512_bytes(bench, {}, 120, 0); }
void small_segments(IwarpBench& bench) { stand_every_512_bytes(bench, {.mss = 200}, 20, 411); }
void of_an_initiator(IwarpBench& bench) { stand_every_512_bytes(bench, {.device_initiates = true}, 30, 101); }
// A 16-bit byte counter wraps here.
void beyond_65536_bytes(IwarpBench& bench) { stand_every_512_bytes(bench, {}, 100, 1999); }

// 4.3: FPDUs with several markers, from different start positions.
void all_point_to_one_length(IwarpBench& bench, std::uint32_t before) {
  Connected& qp = connect_with_markers(bench);
  qp.fill(0, pattern_bytes(2000));
  qp.opens();
  qp.device_sends(1, before);
  qp << a_send(1);
  qp.device_writes(2, 1400);
  std::size_t most = 0;
  for (const Seen& seen : qp.message(RdmapOperation::rdma_write)) {
    is_right(bench, seen);
    std::vector<std::uint64_t> starts;
    for (const auto& marker : seen.markers)
      if (marker.value != 0) starts.push_back(marker.position - marker.value);
    bench.require(std::ranges::adjacent_find(starts, std::not_equal_to{}) == starts.end(),
                  "markers that point to one byte", fmt::format("to {}", fmt::join(starts, ", ")));
    most = std::max(most, starts.size());
  }
  // An FPDU of this length has at least two markers if the EMSS is 1460. A device may send shorter FPDUs.
  if (most < 2) end_case(Verdict::inconclusive, "no FPDU from the device had two markers");
}
void from_the_streams_beginning(IwarpBench& bench) { all_point_to_one_length(bench, 1); }
void from_before_a_marker(IwarpBench& bench) { all_point_to_one_length(bench, 470); }

// 4.3, 4.4: a Send of 484 bytes and the first marker have 512 bytes, so that the next marker is between two FPDUs.
void between_two_fpdus(IwarpBench& bench) {
  Connected& qp = connect_with_markers(bench);
  qp.fill(0, pattern_bytes(484) + "rdmawire");
  qp.opens();
  qp.device_sends(1, 484);
  qp.device_sends(2, 8, 484);
  qp << a_send(1) << a_send(2);
  stands(bench, qp, 4, {0x01, 0xf6});  // 502: 18 + 484
  stands(bench, qp, 512, {0x00, 0x00, 0x00, 0x00, 0x00, 0x1a, 0x41, 0x43});
  stands(bench, qp, 540, {'w', 'i', 'r', 'e', 0x20, 0xf3, 0x94, 0x5f});
}
// With 488 bytes, the pad ends there: the marker precedes the CRC, which covers it.
void between_pad_and_crc(IwarpBench& bench) {
  Connected& qp = connect_with_markers(bench);
  qp.fill(0, pattern_bytes(488));
  qp.opens();
  qp.device_sends(1, 488);
  qp << a_send(1);
  stands(bench, qp, 4, {0x01, 0xfa});
  stands(bench, qp, 512, {0x00, 0x00, 0x01, 0xfc});
}
void markers_are_not_counted(IwarpBench& bench) {
  bench.environment().fix(Parameter::stream_history, "the steps count the bytes of the stream");
  bench.environment().fix(Parameter::mss, "the steps count the bytes of the stream");
  Connected& qp = connect_with_markers(bench);
  qp.fill(0, pattern_bytes(600));
  qp.opens();
  qp.device_sends(1, 600);
  qp << a_send(1).carrying(pattern_bytes(600));
  stands(bench, qp, 4, {0x02, 0x6a});
  bench.require(qp.heard() == 632, "632 bytes: two markers, a length, 618 of ULPDU, a CRC",
                fmt::format("{}", qp.heard()));
}

// Markers received by the device, which requested them

Connected& wants_markers(IwarpBench& bench, const ConnectOptions& options) {
  wish_if_possible(bench, {.markers = true});
  Connected& qp = bench.connect(options);
  with_markers(*qp.setup);
  return qp;
}
/// Replaces the marker at this offset of the FPDU, and recomputes the CRC.
ByteVector with_marker(ByteVector fpdu, std::size_t at, std::uint32_t value) {
  store_be(fpdu.data() + at, 4, value);
  store_be(fpdu.data() + fpdu.size() - 4, 4, compute_mpa_crc(Bytes(fpdu).first(fpdu.size() - 4)));
  return fpdu;
}
constexpr std::uint32_t opening_bytes = 24;  // length of opens() with the first marker
constexpr std::size_t inside = 512 - opening_bytes;

void disagrees(IwarpBench& bench, const ConnectOptions& options, std::uint32_t value) {
  bench.environment().fix(Parameter::stream_history, "the steps count the bytes of the stream");
  bench.environment().fix(Parameter::mss, "the steps count the bytes of the stream");
  Connected& qp = wants_markers(bench, options);
  qp.opens();
  qp.say(with_marker(qp.fpdu(send(1, pattern_bytes(600))), inside, value),
         fmt::format("Send, MSN 1, 600 bytes, with a marker {:#x} in place of {:#x}", value, inside));
  qp << a_terminate(2, 0, 0x03) << stream_closed();
  delivers_nothing(bench, qp);
}
void points_four_bytes_too_far(IwarpBench& bench) { disagrees(bench, {.receives = 1}, inside + 4); }
void points_to_the_fpdu_before(IwarpBench& bench) {
  bench.environment().fix(Parameter::stream_history, "the steps count the bytes of the stream");
  bench.environment().fix(Parameter::mss, "the steps count the bytes of the stream");
  disagrees(bench, {.receives = 1}, static_cast<std::uint32_t>(inside + opening_bytes - 4));
}
void zero_inside_of_an_fpdu(IwarpBench& bench) { disagrees(bench, {.receives = 1}, 0); }
void to_an_initiator(IwarpBench& bench) { disagrees(bench, {.device_initiates = true, .receives = 1}, inside - 4); }
void not_zero_between_fpdus(IwarpBench& bench) {
  bench.environment().fix(Parameter::stream_history, "the steps count the bytes of the stream");
  bench.environment().fix(Parameter::mss, "the steps count the bytes of the stream");
  Connected& qp = wants_markers(bench, {.receives = 2});
  qp >> send(1, pattern_bytes(484));
  qp.completes(0);
  qp.say(with_marker(qp.fpdu(send(2)), 0, 0x10), "Send, MSN 2, after a marker 0x10 instead of 0");
  qp << a_terminate(2, 0, 0x03) << stream_closed();
  delivers_nothing(bench, qp);
}
// 4.2: the two low bits and RESERVED are ignored. The receiver "MUST always treat these as zero".
void is_taken(IwarpBench& bench, std::uint32_t value) {
  bench.environment().fix(Parameter::stream_history, "the steps count the bytes of the stream");
  bench.environment().fix(Parameter::mss, "the steps count the bytes of the stream");
  Connected& qp = wants_markers(bench, {.receives = 1});
  qp.opens();
  qp.say(with_marker(qp.fpdu(send(1, pattern_bytes(600))), inside, value),
         fmt::format("Send, MSN 1, 600 bytes, with a marker {:#x} in place of {:#x}", value, inside));
  qp.completes(0);
  qp.received(0, pattern_bytes(600));
}
void low_bits_of_fpduptr(IwarpBench& bench) { is_taken(bench, inside + 3); }
void reserved_bytes(IwarpBench& bench) { is_taken(bench, 0xffff0000U + inside); }

// 7.1.1: M of one frame controls the direction to its sender.

// Frames with M = 1 in one or both directions, each of which transfers 1200 bytes.
void of_each_direction(IwarpBench& bench, bool device_initiates, bool towards_tester, bool towards_device) {
  bench.environment().fix(Parameter::markers, "the rule is about markers");
  bench.environment().fix(Parameter::stream_history, "the steps count the bytes of the stream");
  bench.environment().fix(Parameter::mss, "the steps count the bytes of the stream");
  wish_if_possible(bench, {.markers = towards_device});
  ConnectOptions options{.device_initiates = device_initiates, .receives = 1, .receive_bytes = 1400};
  Connected& qp = towards_tester ? connect_with_markers(bench, options) : bench.connect(options);
  const bool asked = frame_in(*qp.setup).get<"markers">() != 0;
  if (asked != towards_device)
    end_case(Verdict::unsupported, fmt::format("the device's frame has M = {:d}, which cannot be set", asked));
  qp.fill(0, pattern_bytes(1200));
  qp >> send(1, pattern_bytes(1200, 5));
  qp.completes(0);
  qp.received(0, pattern_bytes(1200, 5));
  qp.device_sends(1, 1200);
  std::size_t markers = 0;
  std::string payload;
  for (const Seen& seen : qp.message(RdmapOperation::send)) {
    is_right(bench, seen);
    markers += seen.markers.size();
    payload += seen.payload();
  }
  bench.require(payload == pattern_bytes(1200), "the 1200 bytes that were posted", "others");
  bench.require(markers == (towards_tester ? 3U : 0U), towards_tester ? "three markers" : "no markers",
                fmt::format("{}", markers));
}
template <bool device_initiates, bool towards_tester, bool towards_device>
void directions(IwarpBench& bench) {
  of_each_direction(bench, device_initiates, towards_tester, towards_device);
}

}  // namespace

std::span<const Case> all() {
  static constexpr Case cases[] = {
      {.rule = "fpdu.sender.markers.first", .variant = "responder", .run = a_responders_first_bytes},
      {.rule = "fpdu.sender.markers.first",
       .variant = "initiator",
       .role = Role::requester,
       .run = an_initiators_first_bytes},
      {.rule = "fpdu.sender.markers.first", .variant = "without CRCs", .run = first_bytes_without_crc},
      {.rule = "fpdu.sender.markers.every-512", .variant = "messages of many sizes", .run = messages_of_many_sizes},
      {.rule = "fpdu.sender.markers.every-512", .variant = "messages of one byte", .run = small_messages},
      {.rule = "fpdu.sender.markers.every-512", .variant = "TCP segments of 200 bytes", .run = small_segments},
      {.rule = "fpdu.sender.markers.every-512",
       .variant = "initiator",
       .role = Role::requester,
       .run = of_an_initiator},
      {.rule = "fpdu.sender.markers.every-512", .variant = "more than 65536 bytes", .run = beyond_65536_bytes},
      {.rule = "fpdu.sender.markers.one-fpdu-one-start",
       .variant = "two markers in an FPDU",
       .run = from_the_streams_beginning},
      {.rule = "fpdu.sender.markers.one-fpdu-one-start",
       .variant = "three markers in an FPDU",
       .run = from_before_a_marker},
      {.rule = "fpdu.sender.markers.between-fpdus", .variant = "between two FPDUs", .run = between_two_fpdus},
      {.rule = "fpdu.sender.markers.between-fpdus", .variant = "between pad and CRC", .run = between_pad_and_crc},
      {.rule = "fpdu.sender.markers.between-fpdus", .variant = "inside a ULPDU", .run = markers_are_not_counted},
      {.rule = "fpdu.receiver.markers.mismatch", .variant = "four bytes too far", .run = points_four_bytes_too_far},
      {.rule = "fpdu.receiver.markers.mismatch", .variant = "preceding FPDU", .run = points_to_the_fpdu_before},
      {.rule = "fpdu.receiver.markers.mismatch", .variant = "0 inside an FPDU", .run = zero_inside_of_an_fpdu},
      {.rule = "fpdu.receiver.markers.mismatch", .variant = "between FPDUs", .run = not_zero_between_fpdus},
      {.rule = "fpdu.receiver.markers.mismatch",
       .variant = "initiator",
       .role = Role::requester,
       .run = to_an_initiator},
      {.rule = "fpdu.receiver.markers.mismatch", .variant = "the two low bits", .run = low_bits_of_fpduptr},
      {.rule = "fpdu.receiver.markers.mismatch", .variant = "RESERVED", .run = reserved_bytes},
      {.rule = "fpdu.sender.markers.one-direction", .variant = "to the tester", .run = directions<false, true, false>},
      {.rule = "fpdu.sender.markers.one-direction", .variant = "to the device", .run = directions<false, false, true>},
      {.rule = "fpdu.sender.markers.one-direction", .variant = "both", .run = directions<false, true, true>},
      {.rule = "fpdu.sender.markers.one-direction", .variant = "neither", .run = directions<false, false, false>},
      {.rule = "fpdu.sender.markers.one-direction",
       .variant = "to the tester, initiator",
       .role = Role::requester,
       .run = directions<true, true, false>},
      {.rule = "fpdu.sender.markers.one-direction",
       .variant = "to the device, initiator",
       .role = Role::requester,
       .run = directions<true, false, true>},
      {.rule = "fpdu.sender.markers.one-direction",
       .variant = "both, initiator",
       .role = Role::requester,
       .run = directions<true, true, true>},
      {.rule = "fpdu.sender.markers.one-direction",
       .variant = "neither, initiator",
       .role = Role::requester,
       .run = directions<true, false, false>},
  };
  return cases;
}

}  // namespace rdmawire::conformance::iwarp::fpdu_markers_cases
