/// Segments that the device sends, and its order of delivery: RFC 5041, 4.1 to 4.3 (the headers), 5.2 (segments),
/// 5.3 and 5.4 (order), RFC 5040, 4.1 (figure 4).

#include <fmt/format.h>

#include <functional>

#include "conformance/cases/files.hpp"
#include "conformance/cases/iwarp/bench.hpp"

namespace rdmawire::conformance::iwarp::ddp_source_cases {
namespace {

using enum RdmapOperation;

constexpr std::uint32_t whole = 6000;  ///< length of a message with several segments
constexpr std::uint32_t invalidates = 0x13570;

/// Receives segments of this opcode until their payload has `bytes` bytes, regardless of flags. One or more segments.
std::vector<Seen> segments_of(Connected& qp, RdmapOperation operation, std::uint64_t bytes) {
  std::vector<Seen> all;
  std::uint64_t come = 0;
  do {
    all.push_back(qp.wait(an(operation)));
    come += all.back().payload().size();
  } while (come < bytes);
  return all;
}
std::string payload_of(const std::vector<Seen>& segments) {
  std::string all;
  for (const Seen& one : segments) all += one.payload();
  return all;
}

/// Makes the device send a message of this length, and returns its segments.
using Message = std::vector<Seen> (*)(Connected&, std::uint32_t);
std::vector<Seen> a_send_of(Connected& qp, std::uint32_t bytes) {
  qp.device_sends(0, bytes);
  return segments_of(qp, RdmapOperation::send, bytes);
}
std::vector<Seen> a_send_with_invalidate_of(Connected& qp, std::uint32_t bytes) {
  qp.post({.opcode = "send_inv", .wr_id = 0, .sges = {qp.piece(0, bytes)}, .invalidate_rkey = invalidates});
  return segments_of(qp, RdmapOperation::send_invalidate, bytes);
}
std::vector<Seen> a_write_of(Connected& qp, std::uint32_t bytes) {
  qp.device_writes(0, bytes);
  return segments_of(qp, rdma_write, bytes);
}
std::vector<Seen> a_response_of(Connected& qp, std::uint32_t bytes) {
  qp >> iwarp::read_request(1, {.size = bytes, .source_stag = qp.stag(), .source_to = qp.to()});
  return segments_of(qp, RdmapOperation::read_response, bytes);
}

/// Returns a stream on which the device may send, with distinguishable bytes in its region.
Connected& ready(IwarpBench& bench, const ConnectOptions& options = {}) {
  Connected& qp = bench.connect(options);
  qp.fill(0, pattern_bytes(options.region_bytes));
  qp.opens();
  return qp;
}
/// The same with markers in the device's stream. Other rules test devices that reject markers.
Connected& ready_with_markers(IwarpBench& bench, ConnectOptions options = {}) {
  options.markers = true;
  try {
    return ready(bench, options);
  } catch (const CaseEnd& end) {
    end_case(Verdict::unsupported, "cannot establish a stream with markers: " + end.judgment.actual);
  }
}
/// A message with several segments.
std::vector<Seen> several(IwarpBench& bench, Connected& qp, Message message, std::uint32_t bytes_of = whole) {
  std::vector<Seen> segments = message(qp, bytes_of);
  bench.require(payload_of(segments) == pattern_bytes(bytes_of), "the bytes of the device's memory", "others");
  bench.require(segments.size() > 1, "several segments", fmt::format("{}", segments.size()));
  return segments;
}

// 4.1: version 1, reserved bits 0, and the buffer model of the opcode in figure 4.
void has_control_fields(IwarpBench& bench, const Seen& seen, unsigned tagged) {
  const auto is = [&](const char* what, std::optional<std::uint64_t> found, unsigned wanted) {
    bench.require(found == wanted, fmt::format("{} {} in: {}", what, wanted, seen.text()),
                  found ? fmt::format("{}", *found) : "the field is missing");
  };
  is("DDP version", seen.get<Ddp, "dv">(), 1);
  is("reserved bits", seen.get<Ddp, "reserved">(), 0);
  is("tagged flag", seen.get<Ddp, "tagged">(), tagged);
}
void control_fields(IwarpBench& bench, Message message, unsigned tagged) {
  Connected& qp = ready(bench);
  for (const Seen& one : several(bench, qp, message)) has_control_fields(bench, one, tagged);
}
void fields_of_a_send(IwarpBench& bench) { control_fields(bench, a_send_of, 0); }
void fields_of_a_write(IwarpBench& bench) { control_fields(bench, a_write_of, 1); }
void fields_of_a_response(IwarpBench& bench) { control_fields(bench, a_response_of, 1); }
void fields_of_a_read_request(IwarpBench& bench) {
  Connected& qp = ready(bench);
  qp.device_reads(0);
  has_control_fields(bench, qp.wait(an(RdmapOperation::read_request)), 0);
}
void fields_of_a_terminate(IwarpBench& bench) {
  Connected& qp = bench.connect({.receives = 1});
  qp >> send_nowhere(1);
  has_control_fields(bench, qp.wait(any_terminate()), 0);
}

void the_same_version(IwarpBench& bench) {
  Connected& qp = ready(bench);
  std::vector<Seen> all;
  for (const Message message : {a_send_of, a_write_of, a_response_of, a_send_of})
    for (Seen& one : message(qp, 3000)) all.push_back(std::move(one));
  for (const Seen& one : all)
    bench.require(one.get<Ddp, "dv">() == all.front().get<Ddp, "dv">(), "the DDP version of the stream's first segment",
                  fmt::format("{} in: {}", one.get<Ddp, "dv">().value_or(9), one.text()));
}

// 4.1: only the last segment has the last flag. 4.2 and 4.3: all have the same ULP control bytes and the same buffer.
template <class H, FixedString Name>
void all_have(IwarpBench& bench, const std::vector<Seen>& segments, const char* what) {
  const auto first = segments.front().get<H, Name>();
  bench.require(first.has_value(), fmt::format("a header with {}", what), segments.front().text());
  for (const Seen& one : segments)
    bench.require(one.get<H, Name>() == first, fmt::format("{} {:#x} in each segment", what, *first), one.text());
}
void only_the_last_has_the_last_flag(IwarpBench& bench, const std::vector<Seen>& segments) {
  for (std::size_t i = 0; i < segments.size(); ++i) {
    const std::uint64_t wanted = i + 1 == segments.size() ? 1 : 0;
    bench.require(segments[i].get<Ddp, "last">() == wanted,
                  fmt::format("last flag {} in segment {} of {}", wanted, i + 1, segments.size()), segments[i].text());
  }
}
void last_flag_of_untagged(IwarpBench& bench, Message message) {
  Connected& qp = ready(bench);
  const auto segments = several(bench, qp, message);
  only_the_last_has_the_last_flag(bench, segments);
  all_have<DdpUntagged, "qn">(bench, segments, "QN");
  all_have<DdpUntagged, "msn">(bench, segments, "MSN");
  all_have<DdpUntagged, "invalidate_stag">(bench, segments, "RsvdULP");
}
void last_flag_of_tagged(IwarpBench& bench, Message message) {
  Connected& qp = ready(bench);
  const auto segments = several(bench, qp, message);
  only_the_last_has_the_last_flag(bench, segments);
  all_have<DdpTagged, "stag">(bench, segments, "STag");
}
void last_flag_of_a_send(IwarpBench& bench) { last_flag_of_untagged(bench, a_send_of); }
void last_flag_of_a_send_with_invalidate(IwarpBench& bench) { last_flag_of_untagged(bench, a_send_with_invalidate_of); }
void last_flag_of_a_write(IwarpBench& bench) { last_flag_of_tagged(bench, a_write_of); }
void last_flag_of_a_response(IwarpBench& bench) { last_flag_of_tagged(bench, a_response_of); }

// 5.2: the message's first TO plus the preceding bytes. The TO crosses 2^32 where possible, and does not wrap.
void tagged_offsets(IwarpBench& bench, const std::vector<Seen>& segments, std::uint64_t to) {
  for (const Seen& one : segments) {
    bench.require(one.get<DdpTagged, "to">() == to, fmt::format("TO {:#x}", to), one.text());
    to += one.payload().size();
  }
}
void offsets_of_a_write(IwarpBench& bench) {
  Connected& qp = ready(bench);
  tagged_offsets(bench, several(bench, qp, a_write_of), tester_memory);
}
void offsets_across_4_gb(IwarpBench& bench) {
  constexpr std::uint64_t to = (std::uint64_t{1} << 32) - 2000;
  Connected& qp = ready(bench);
  qp.post({.opcode = "write", .wr_id = 0, .sges = {qp.piece(0, whole)}, .remote_addr = to, .rkey = tester_stag});
  tagged_offsets(bench, segments_of(qp, rdma_write, whole), to);
}
void offsets_of_a_response(IwarpBench& bench) {
  Connected& qp = ready(bench);
  tagged_offsets(bench, several(bench, qp, a_response_of), Read().sink_to);
}
void offsets_with_markers(IwarpBench& bench) {
  Connected& qp = ready_with_markers(bench);
  tagged_offsets(bench, several(bench, qp, a_write_of), tester_memory);
}

// 4.3: the number of preceding message bytes.
void message_offsets(IwarpBench& bench, const ConnectOptions& options) {
  Connected& qp = ready(bench, options);
  std::uint64_t before = 0;
  for (const Seen& one : several(bench, qp, a_send_of)) {
    bench.require(one.get<DdpUntagged, "mo">() == before, fmt::format("MO {}", before), one.text());
    before += one.payload().size();
  }
}
void offsets_of_a_send(IwarpBench& bench) { message_offsets(bench, {}); }
void offsets_of_a_send_in_small_segments(IwarpBench& bench) { message_offsets(bench, {.mss = 536}); }

// 4.3: the first MSN of each queue is 1. The wrap after 2^32 - 1 needs too many messages for a test.
void sends_count(IwarpBench& bench) {
  Connected& qp = ready(bench);
  for (std::uint32_t msn = 1; msn <= 4; ++msn) {
    qp.device_sends(msn);
    qp << a_send(msn);
    qp.device_writes(0x100 + msn);  // has no MSN
    qp << an(rdma_write);
  }
}
void segments_count_once(IwarpBench& bench) {
  Connected& qp = ready(bench);
  qp.device_sends(0, whole);
  for (const Seen& one : segments_of(qp, RdmapOperation::send, whole))
    bench.require(one.get<DdpUntagged, "msn">() == 1, "MSN 1", one.text());
  qp.device_sends(1);
  qp << a_send(2);
}
void reads_count_by_themselves(IwarpBench& bench) {
  Connected& qp = ready(bench);
  for (std::uint32_t msn = 1; msn <= 3; ++msn) {
    qp.device_sends(msn);
    qp << a_send(msn);
    qp.device_reads(0x100 + msn);
    const Seen request = qp.wait(a_read_request(msn, 8));
    qp >> response_to(request, pattern_bytes(8));
  }
}

/// RFC 5044, 4.5: the maximum length of a DDP segment for this EMSS. The device's segments may be smaller.
std::uint32_t mulpdu(std::uint32_t emss, bool markers) {
  return emss - (6 + (markers ? 4 * ((emss + 511) / 512) : 0) + emss % 4);
}
void within_mulpdu(IwarpBench& bench, const ConnectOptions& options) {
  Connected& qp = options.markers ? ready_with_markers(bench, options) : ready(bench, options);
  const std::uint32_t most = mulpdu(options.mss, options.markers);
  for (const Message message : {a_send_of, a_write_of, a_response_of})
    for (const Seen& one : several(bench, qp, message))
      bench.require(one.ulpdu_bytes() <= most, fmt::format("at most {} bytes of a DDP segment", most),
                    fmt::format("{} in: {}", one.ulpdu_bytes(), one.text()));
}
void of_1460(IwarpBench& bench) { within_mulpdu(bench, {}); }
void of_1459(IwarpBench& bench) { within_mulpdu(bench, {.mss = 1459}); }
void of_536(IwarpBench& bench) { within_mulpdu(bench, {.mss = 536}); }
void of_1460_with_markers(IwarpBench& bench) { within_mulpdu(bench, {.markers = true}); }
void of_1458_with_markers(IwarpBench& bench) { within_mulpdu(bench, {.markers = true, .mss = 1458}); }

// 5.2: exactly one segment, with the last flag.
void one_segment(IwarpBench& bench, Message message) {
  Connected& qp = ready(bench);
  const auto segments = message(qp, 0);
  bench.require(segments.front().payload().empty() && segments.front().get<Ddp, "last">() == 1,
                "a segment without payload, with the last flag", segments.front().text());
  qp << silence();
}
void a_send_of_nothing(IwarpBench& bench) { one_segment(bench, a_send_of); }
void a_write_of_nothing(IwarpBench& bench) { one_segment(bench, a_write_of); }
void a_response_of_nothing(IwarpBench& bench) { one_segment(bench, a_response_of); }

// 5.3: messages are sent in posting order.
void sends_in_order(IwarpBench& bench) {
  Connected& qp = bench.connect();
  qp.fill(0, pattern_bytes(64));
  for (std::uint32_t i = 0; i < 4; ++i) qp.device_sends(i, 8 + i, 8 * i);
  qp.opens();
  for (std::uint32_t i = 0; i < 4; ++i) qp << a_send(i + 1).carrying(pattern_bytes(64).substr(8 * i, 8 + i));
  for (std::uint32_t i = 0; i < 4; ++i) qp.completes(i);
}
void sends_and_writes_in_order(IwarpBench& bench) {
  Connected& qp = bench.connect();
  qp.fill(0, pattern_bytes(4096));
  qp.device_writes(0, 4000);
  qp.device_sends(1, 8);
  qp.device_writes(2, 16);
  qp.device_sends(3, 3000);
  qp.opens();
  bench.require(payload_of(qp.message(rdma_write)) == pattern_bytes(4000), "the RDMA Write that was posted first",
                "others");
  qp << a_send(1).carrying(pattern_bytes(8)) << a_write(tester_stag, tester_memory).carrying(pattern_bytes(16));
  bench.require(payload_of(qp.message(RdmapOperation::send)) == pattern_bytes(3000), "the Send that was posted last",
                "others");
}
// 5.4: messages are delivered in posting order, each once.
void delivered_in_order(IwarpBench& bench) {
  Connected& qp = bench.connect({.receives = 5});
  qp.together({iwarp::send(1, pattern_bytes(8)), send_part(2, 0, pattern_bytes(16), false),
               send_part(2, 16, pattern_bytes(8, 0x11), true), iwarp::send(3, ""),
               iwarp::send(4, pattern_bytes(12, 0x50))});
  for (const std::uint64_t wr_id : {0U, 1U, 2U, 3U}) qp.completes(wr_id);
  qp.received(0, pattern_bytes(8));
  qp.received(1, pattern_bytes(24));
  qp.received(3, pattern_bytes(12, 0x50));
  qp.completes_nothing();
}

// 5.2, 5.3: tagged messages are not interleaved.
void no_other_tagged_inside(IwarpBench& bench, Connected& qp, std::size_t messages) {
  std::optional<Seen> open;
  while (messages > 0) {
    Seen seen = qp.wait(Expectation("a tagged segment of the device", [](const Seen& one) {
      return one.get<Ddp, "tagged">() == 1 ? Match::yes : Match::no;
    }));
    if (open) {
      const std::uint64_t behind = open->get<DdpTagged, "to">().value_or(0) + open->payload().size();
      const bool goes_on = seen.get<Rdmap, "opcode">() == open->get<Rdmap, "opcode">() &&
                           seen.get<DdpTagged, "stag">() == open->get<DdpTagged, "stag">() &&
                           seen.get<DdpTagged, "to">() == behind;
      bench.require(goes_on, "the message continues until its last segment", seen.text());
    }
    open.reset();
    if (seen.get<Ddp, "last">() == 1)
      --messages;
    else
      open = std::move(seen);
  }
}
void writes_do_not_mix(IwarpBench& bench) {
  Connected& qp = bench.connect();
  for (std::uint64_t i = 0; i < 3; ++i) qp.device_writes(i, 4000);
  qp.opens();
  no_other_tagged_inside(bench, qp, 3);
}
void writes_and_responses_do_not_mix(IwarpBench& bench) {
  Connected& qp = bench.connect();
  for (std::uint64_t i = 0; i < 2; ++i) qp.device_writes(i, 4000);
  const auto read = [&](std::uint32_t msn) {
    return iwarp::read_request(msn, {.size = 4000, .source_stag = qp.stag(), .source_to = qp.to()});
  };
  qp.together({read(1), read(2)});
  no_other_tagged_inside(bench, qp, 4);
}

}  // namespace

std::span<const Case> all() {
  constexpr Role requester = Role::requester;
  static constexpr Case cases[] = {
      {.rule = "ddp.data-source.control.fields", .variant = "Send", .role = requester, .run = fields_of_a_send},
      {.rule = "ddp.data-source.control.fields", .variant = "RDMA Write", .role = requester, .run = fields_of_a_write},
      {.rule = "ddp.data-source.control.fields",
       .variant = "RDMA Read Request",
       .role = requester,
       .run = fields_of_a_read_request},
      {.rule = "ddp.data-source.control.fields", .variant = "RDMA Read Response", .run = fields_of_a_response},
      {.rule = "ddp.data-source.control.fields", .variant = "Terminate", .run = fields_of_a_terminate},
      {.rule = "ddp.data-source.version.constant", .role = requester, .run = the_same_version},
      {.rule = "ddp.data-source.message.last-flag", .variant = "Send", .role = requester, .run = last_flag_of_a_send},
      {.rule = "ddp.data-source.message.last-flag",
       .variant = "Send with Invalidate",
       .role = requester,
       .run = last_flag_of_a_send_with_invalidate},
      {.rule = "ddp.data-source.message.last-flag",
       .variant = "RDMA Write",
       .role = requester,
       .run = last_flag_of_a_write},
      {.rule = "ddp.data-source.message.last-flag", .variant = "RDMA Read Response", .run = last_flag_of_a_response},
      {.rule = "ddp.data-source.tagged.offset", .variant = "RDMA Write", .role = requester, .run = offsets_of_a_write},
      {.rule = "ddp.data-source.tagged.offset",
       .variant = "RDMA Write across 2^32",
       .role = requester,
       .run = offsets_across_4_gb},
      {.rule = "ddp.data-source.tagged.offset",
       .variant = "RDMA Write with markers",
       .role = requester,
       .run = offsets_with_markers},
      {.rule = "ddp.data-source.tagged.offset", .variant = "RDMA Read Response", .run = offsets_of_a_response},
      {.rule = "ddp.data-source.untagged.offset",
       .variant = "segments of 1460 bytes",
       .role = requester,
       .run = offsets_of_a_send},
      {.rule = "ddp.data-source.untagged.offset",
       .variant = "segments of 536 bytes",
       .role = requester,
       .run = offsets_of_a_send_in_small_segments},
      {.rule = "ddp.data-source.msn.counts", .variant = "queue 0", .role = requester, .run = sends_count},
      {.rule = "ddp.data-source.msn.counts",
       .variant = "several segments",
       .role = requester,
       .run = segments_count_once},
      {.rule = "ddp.data-source.msn.counts", .variant = "queue 1", .role = requester, .run = reads_count_by_themselves},
      {.rule = "ddp.data-source.length.within-mulpdu", .variant = "1460", .role = requester, .run = of_1460},
      {.rule = "ddp.data-source.length.within-mulpdu", .variant = "1459", .role = requester, .run = of_1459},
      {.rule = "ddp.data-source.length.within-mulpdu", .variant = "536", .role = requester, .run = of_536},
      {.rule = "ddp.data-source.length.within-mulpdu",
       .variant = "1460 with markers",
       .role = requester,
       .run = of_1460_with_markers},
      {.rule = "ddp.data-source.length.within-mulpdu",
       .variant = "1458 with markers",
       .role = requester,
       .run = of_1458_with_markers},
      {.rule = "ddp.data-source.length.zero-one-segment",
       .variant = "Send",
       .role = requester,
       .run = a_send_of_nothing},
      {.rule = "ddp.data-source.length.zero-one-segment",
       .variant = "RDMA Write",
       .role = requester,
       .run = a_write_of_nothing},
      {.rule = "ddp.data-source.length.zero-one-segment",
       .variant = "RDMA Read Response",
       .run = a_response_of_nothing},
      {.rule = "ddp.endpoint.order.as-submitted", .variant = "Sends", .role = requester, .run = sends_in_order},
      {.rule = "ddp.endpoint.order.as-submitted",
       .variant = "Sends and RDMA Writes",
       .role = requester,
       .run = sends_and_writes_in_order},
      {.rule = "ddp.endpoint.order.as-submitted", .variant = "delivered", .run = delivered_in_order},
      {.rule = "ddp.data-source.message.not-begun-inside",
       .variant = "RDMA Writes",
       .role = requester,
       .run = writes_do_not_mix},
      {.rule = "ddp.data-source.message.not-begun-inside",
       .variant = "RDMA Writes and RDMA Read Responses",
       .role = requester,
       .run = writes_and_responses_do_not_mix},
  };
  return cases;
}

}  // namespace rdmawire::conformance::iwarp::ddp_source_cases
