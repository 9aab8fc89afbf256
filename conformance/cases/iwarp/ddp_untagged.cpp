/// Untagged buffers: RFC 5041, 4.1 and 4.3 (the header), 5.3 and 5.4 (order), 7.1 (checks of a receiver), 7.2 (its
/// errors).

#include <fmt/format.h>

#include "conformance/cases/files.hpp"
#include "conformance/cases/iwarp/bench.hpp"

namespace rdmawire::conformance::iwarp::ddp_untagged_cases {
namespace {

/// Checks that the segments end the stream with this Terminate, and that both posted receives fail or are flushed.
void refused(IwarpBench& bench, const std::vector<Stimulus>& bad, const Expectation& terminate) {
  Connected& qp = bench.connect({.receives = 2});
  for (const Stimulus& segment : bad) qp >> segment;
  qp.refuses(terminate);
  qp.fail_or_are_flushed(0, 1);
}
void refused_untouched(IwarpBench& bench, const Stimulus& bad, const Expectation& terminate) {
  Connected& qp = bench.connect({.receives = 2});
  qp >> bad;
  qp.refuses(terminate);
  qp.fail_or_are_flushed(0, 1);
  qp.received(0, untouched());
  qp.received(1, untouched());
}

// 4.1: reserved bits are ignored on receipt: each of the four bits, and all of them.
void reserved_bits_of_sends(IwarpBench& bench) {
  Connected& qp = bench.connect({.receives = 5});
  std::uint32_t msn = 1;
  for (const unsigned bits : {1U, 2U, 4U, 8U, 15U}) {
    const std::string payload = pattern_bytes(16, static_cast<std::uint8_t>(0x10 * msn));
    qp >> send(msn, payload).with<Ddp, "reserved">(bits, "with reserved bits of DDP");
    qp.completes(msn - 1);
    qp.received(msn - 1, payload);
    ++msn;
  }
  qp << silence();
}
void reserved_bits_of_writes(IwarpBench& bench) {
  Connected& qp = bench.connect({.receives = 1});
  std::uint64_t offset = 0;
  for (const unsigned bits : {1U, 2U, 4U, 8U, 15U}) {
    qp >> write(qp.stag(), qp.to(offset), pattern_bytes(8, static_cast<std::uint8_t>(bits)))
              .with<Ddp, "reserved">(bits, "with reserved bits of DDP");
    offset += 8;
  }
  qp >> send(1);
  qp.completes(0);
  qp.holds(
      0, pattern_bytes(8, 1) + pattern_bytes(8, 2) + pattern_bytes(8, 4) + pattern_bytes(8, 8) + pattern_bytes(8, 15));
  qp << silence();
}
void reserved_bits_of_a_read_request(IwarpBench& bench) {
  Connected& qp = bench.connect();
  qp.fill(0, pattern_bytes(8));
  qp >> read_request(1, {.source_stag = qp.stag(), .source_to = qp.to()})
            .with<Ddp, "reserved">(15, "with reserved bits of DDP");
  qp << an(RdmapOperation::read_response).carrying(pattern_bytes(8));
}

// Layer 1, type 2, code 6.
void version(IwarpBench& bench, unsigned dv) {
  refused_untouched(bench, send(1).with<Ddp, "dv">(dv, "of another DDP version"), a_terminate(1, 2, 0x06));
}
void version_0(IwarpBench& bench) { version(bench, 0); }
void version_2(IwarpBench& bench) { version(bench, 2); }
void version_3(IwarpBench& bench) { version(bench, 3); }
void version_of_a_later_segment(IwarpBench& bench) {
  refused(bench,
          {send_part(1, 0, pattern_bytes(16), false),
           send_part(1, 16, pattern_bytes(16), true).with<Ddp, "dv">(0, "of another DDP version")},
          a_terminate(1, 2, 0x06));
}
void version_of_a_read_request(IwarpBench& bench) {
  Connected& qp = bench.connect();
  qp >> read_request(1, {.source_stag = qp.stag(), .source_to = qp.to()}).with<Ddp, "dv">(2, "of another DDP version");
  qp.refuses(a_terminate(1, 2, 0x06));
}

// An unknown queue: layer 1, type 2, code 1. Queue 3 is defined by RFC 7306 for another operation.
void queue(IwarpBench& bench, std::uint32_t qn) {
  refused_untouched(bench, send(1).with<DdpUntagged, "qn">(qn, fmt::format("on QN {}", qn)), a_terminate(1, 2, 0x01));
}
void queue_4(IwarpBench& bench) { queue(bench, 4); }
void queue_7(IwarpBench& bench) { queue(bench, 7); }
void the_last_queue(IwarpBench& bench) { queue(bench, 0xffffffff); }
void a_queue_that_looks_like_0(IwarpBench& bench) { queue(bench, 0x100); }

// Layer 1, type 2, code 2.
void none_posted(IwarpBench& bench) {
  Connected& qp = bench.connect();
  qp >> send(1);
  qp.refuses(a_terminate(1, 2, 0x02));
}
void one_more_than_posted(IwarpBench& bench) {
  Connected& qp = bench.connect({.receives = 1});
  qp >> send(1, pattern_bytes(16));
  qp.completes(0);
  qp >> send(2, pattern_bytes(16, 0x40));
  qp.refuses(a_terminate(1, 2, 0x02));
  qp.received(0, pattern_bytes(16));
  qp.completes_nothing();
}
void none_posted_for_the_first_of_several(IwarpBench& bench) {
  Connected& qp = bench.connect();
  qp >> send_part(1, 0, pattern_bytes(16), false);
  qp.refuses(a_terminate(1, 2, 0x02));
}

// The expected MSN is 1: layer 1, type 2, code 3.
void an_msn_too_far(IwarpBench& bench) { refused_untouched(bench, send(3), a_terminate(1, 2, 0x03)); }
void an_msn_much_too_far(IwarpBench& bench) { refused_untouched(bench, send(0x80000000), a_terminate(1, 2, 0x03)); }
void msn_0(IwarpBench& bench) { refused_untouched(bench, send(0), a_terminate(1, 2, 0x03)); }
void an_msn_repeated(IwarpBench& bench) {
  Connected& qp = bench.connect({.receives = 2});
  qp >> send(1, pattern_bytes(16));
  qp.completes(0);
  qp >> send(1, pattern_bytes(16, 0x40));
  qp.refuses(a_terminate(1, 2, 0x03));
  qp.fail_or_are_flushed(1, 1);
  qp.received(0, pattern_bytes(16));
  qp.received(1, untouched());
}
void another_msn_inside_a_message(IwarpBench& bench) {
  refused(bench, {send_part(1, 0, pattern_bytes(16), false), send_part(3, 16, pattern_bytes(16), true)},
          a_terminate(1, 2, 0x03));
}
void a_read_request_too_far(IwarpBench& bench) {
  Connected& qp = bench.connect();
  qp >> read_request(0x10000, {.source_stag = qp.stag(), .source_to = qp.to()});
  qp.refuses(a_terminate(1, 2, 0x03));
}
// 7.1, item 5 counts it as within the range, while 5.4 forbids its delivery: MSN 1 is missing.
void a_skipped_msn(IwarpBench& bench) {
  Connected& qp = bench.connect({.receives = 2});
  qp >> send(2);
  if (const auto terminate = qp.wait_or_silence(a_terminate(1, 2, 0x03))) {
    qp.is_refused_by(*terminate);
    return qp.fail_or_are_flushed(0, 1);
  }
  bench.note("the message may be placed, and is delivered after MSN 1");
  qp.completes_nothing();
}

// Layer 1, type 2, code 4.
void an_mo_after_the_buffer(IwarpBench& bench) {
  refused_untouched(bench, send_part(1, 2048, pattern_bytes(8), true), a_terminate(1, 2, 0x04));
}
void the_last_mo(IwarpBench& bench) {
  refused_untouched(bench, send_part(1, 0xfffffffc, pattern_bytes(8), true), a_terminate(1, 2, 0x04));
}
void an_mo_at_the_begin(IwarpBench& bench) {
  refused_untouched(bench, send_part(1, 4, pattern_bytes(8), true), a_terminate(1, 2, 0x04));
}
void an_mo_that_skips(IwarpBench& bench) {
  Connected& qp = bench.connect({.receives = 1});
  qp >> send_part(1, 0, pattern_bytes(16), false) >> send_part(1, 24, pattern_bytes(16), true);
  qp.refuses(a_terminate(1, 2, 0x04));
  qp.fails_or_is_flushed(0);
}
void an_mo_that_decreases(IwarpBench& bench) {
  Connected& qp = bench.connect({.receives = 1});
  qp >> send_part(1, 0, pattern_bytes(16), false) >> send_part(1, 8, pattern_bytes(16), true);
  qp.refuses(a_terminate(1, 2, 0x04));
  qp.fails_or_is_flushed(0);
}

// Layer 1, type 2, code 5. Memory after the buffer belongs to the next buffer.
void too_long(IwarpBench& bench, const std::vector<Stimulus>& message) {
  Connected& qp = bench.connect({.receives = 2, .receive_bytes = 128});
  for (const Stimulus& segment : message) qp >> segment;
  qp.refuses(a_terminate(1, 2, 0x05));
  qp.fails_or_is_flushed(0);
  qp.fail_or_are_flushed(1, 1);
  qp.received(1, untouched());
}
void one_byte_too_long(IwarpBench& bench) { too_long(bench, {send(1, pattern_bytes(129))}); }
void much_too_long(IwarpBench& bench) { too_long(bench, {send(1, pattern_bytes(1200))}); }
void too_long_in_its_last_segment(IwarpBench& bench) {
  too_long(bench, {send_part(1, 0, pattern_bytes(128), false), send_part(1, 128, pattern_bytes(1), true)});
}
void too_long_in_a_middle_segment(IwarpBench& bench) {
  too_long(bench, {send_part(1, 0, pattern_bytes(100), false), send_part(1, 100, pattern_bytes(100), false)});
}
void as_long_as_the_buffer(IwarpBench& bench) {
  Connected& qp = bench.connect({.receives = 2, .receive_bytes = 128});
  qp >> send(1, pattern_bytes(128)) >> send_part(2, 0, pattern_bytes(64), false) >>
      send_part(2, 64, pattern_bytes(64), true);
  qp.completes(0);
  qp.completes(1);
  qp.received(0, pattern_bytes(128));
  qp.received(1, pattern_bytes(64) + pattern_bytes(64));
}

// 7.1 checks only segments with payload: a zero-length message is delivered regardless of its MO.
void nothing_at_the_begin(IwarpBench& bench) {
  Connected& qp = bench.connect({.receives = 2});
  qp >> send(1, "");
  const peer::Completion completion = qp.completes(0);
  bench.require(completion.byte_len == 0, "a message of 0 bytes", fmt::format("{} bytes", completion.byte_len));
  qp >> send(2);
  qp.completes(1);
}
void nothing_after_the_buffer(IwarpBench& bench) {
  Connected& qp = bench.connect({.receives = 2});
  qp >> send_part(1, 2048, "", true);
  qp.completes(0);
  qp.received(0, untouched());
  qp >> send(2);
  qp.completes(1);
  qp << silence();
}
void nothing_as_the_last(IwarpBench& bench) {
  Connected& qp = bench.connect({.receives = 1});
  qp >> send_part(1, 0, pattern_bytes(16), false) >> send_part(1, 16, "", true);
  const peer::Completion completion = qp.completes(0);
  bench.require(completion.byte_len == 16, "a message of 16 bytes", fmt::format("{} bytes", completion.byte_len));
  qp.received(0, pattern_bytes(16));
}

/// Returns whether the device rejects the segments, by a Terminate or by closing TCP. Then the receive is not
/// delivered.
bool refuses_the_order(IwarpBench& bench, Connected& qp) {
  const auto seen = qp.wait_or_silence(a_refusal());
  if (!seen) return false;
  bench.note("the device rejects segments that are not in MO order");
  qp.is_refused_by(*seen);
  qp.fails_or_is_flushed(0);
  return true;
}
// 5.3: the sender must keep the order. 5.4: only complete messages are delivered.
void out_of_order(IwarpBench& bench, const std::vector<Stimulus>& segments, const std::string& payload) {
  Connected& qp = bench.connect({.receives = 1});
  for (std::size_t i = 0; i < segments.size(); ++i) {
    qp >> segments[i];
    if (refuses_the_order(bench, qp)) return;
    if (i + 1 < segments.size()) qp.completes_nothing();
  }
  const peer::Completion completion = qp.completes(0);
  bench.require(completion.byte_len == payload.size(), fmt::format("a message of {} bytes", payload.size()),
                fmt::format("{} bytes", completion.byte_len));
  qp.received(0, payload);
}
void two_segments_swapped(IwarpBench& bench) {
  const std::string payload = pattern_bytes(32);
  out_of_order(bench, {send_part(1, 16, payload.substr(16), true), send_part(1, 0, payload.substr(0, 16), false)},
               payload);
}
void the_middle_arrives_late(IwarpBench& bench) {
  const std::string payload = pattern_bytes(48);
  out_of_order(bench,
               {send_part(1, 0, payload.substr(0, 16), false), send_part(1, 32, payload.substr(32), true),
                send_part(1, 16, payload.substr(16, 16), false)},
               payload);
}

// Interleaved segments of a Send and an RDMA Write form two complete messages.
void a_write_inside_a_send(IwarpBench& bench) {
  Connected& qp = bench.connect({.receives = 1});
  qp >> send_part(1, 0, pattern_bytes(16), false) >> write_part(qp.stag(), qp.to(), pattern_bytes(16, 0x40), false);
  qp >> send_part(1, 16, pattern_bytes(16, 0x11), false) >>
      write_part(qp.stag(), qp.to(16), pattern_bytes(16, 0x50), true);
  qp >> send_part(1, 32, pattern_bytes(16, 0x21), true);
  qp.completes(0);
  qp.received(0, pattern_bytes(48));
  qp.holds(0, pattern_bytes(32, 0x40));
  qp << silence();
}
void a_send_inside_a_write(IwarpBench& bench) {
  Connected& qp = bench.connect({.receives = 2});
  qp >> write_part(qp.stag(), qp.to(), pattern_bytes(16), false) >> send(1, pattern_bytes(24, 0x40));
  qp >> write_part(qp.stag(), qp.to(16), pattern_bytes(16, 0x11), true) >> send(2);
  qp.completes(0);
  qp.completes(1);
  qp.received(0, pattern_bytes(24, 0x40));
  qp.holds(0, pattern_bytes(32));
  qp << silence();
}
void a_response_inside_a_send(IwarpBench& bench) {
  Connected& qp = bench.connect({.receives = 1});
  qp.opens();
  qp.device_reads(7, 32);
  const Seen request = qp.wait(a_read_request(1, 32));
  qp >> send_part(1, 0, pattern_bytes(16), false) >> response_to(request, pattern_bytes(16, 0x60), 0, false);
  qp >> send_part(1, 16, pattern_bytes(16, 0x11), true) >> response_to(request, pattern_bytes(16, 0x70), 16, true);
  qp.completes(0);
  qp.completes(7);
  qp.received(0, pattern_bytes(32));
  qp.holds(0, pattern_bytes(32, 0x60));
}

}  // namespace

std::span<const Case> all() {
  static constexpr Case cases[] = {
      {.rule = "ddp.data-sink.reserved.unchecked", .variant = "Send", .run = reserved_bits_of_sends},
      {.rule = "ddp.data-sink.reserved.unchecked", .variant = "RDMA Write", .run = reserved_bits_of_writes},
      {.rule = "ddp.data-sink.reserved.unchecked",
       .variant = "RDMA Read Request",
       .run = reserved_bits_of_a_read_request},
      {.rule = "ddp.data-sink.version.untagged", .variant = "0", .run = version_0},
      {.rule = "ddp.data-sink.version.untagged", .variant = "2", .run = version_2},
      {.rule = "ddp.data-sink.version.untagged", .variant = "3", .run = version_3},
      {.rule = "ddp.data-sink.version.untagged", .variant = "last segment", .run = version_of_a_later_segment},
      {.rule = "ddp.data-sink.version.untagged", .variant = "RDMA Read Request", .run = version_of_a_read_request},
      {.rule = "ddp.data-sink.queue.invalid", .variant = "4", .run = queue_4},
      {.rule = "ddp.data-sink.queue.invalid", .variant = "7", .run = queue_7},
      {.rule = "ddp.data-sink.queue.invalid", .variant = "0xffffffff", .run = the_last_queue},
      {.rule = "ddp.data-sink.queue.invalid", .variant = "0x100", .run = a_queue_that_looks_like_0},
      {.rule = "ddp.data-sink.queue.no-buffer", .variant = "none posted", .run = none_posted},
      {.rule = "ddp.data-sink.queue.no-buffer", .variant = "one receive too few", .run = one_more_than_posted},
      {.rule = "ddp.data-sink.queue.no-buffer",
       .variant = "first segment",
       .run = none_posted_for_the_first_of_several},
      {.rule = "ddp.data-sink.msn.out-of-range", .variant = "two messages ahead", .run = an_msn_too_far},
      {.rule = "ddp.data-sink.msn.out-of-range", .variant = "half of the range ahead", .run = an_msn_much_too_far},
      {.rule = "ddp.data-sink.msn.out-of-range", .variant = "0", .run = msn_0},
      {.rule = "ddp.data-sink.msn.out-of-range", .variant = "repeated", .run = an_msn_repeated},
      {.rule = "ddp.data-sink.msn.out-of-range", .variant = "one MSN omitted", .run = a_skipped_msn},
      {.rule = "ddp.data-sink.msn.out-of-range", .variant = "inside a message", .run = another_msn_inside_a_message},
      {.rule = "ddp.data-sink.msn.out-of-range", .variant = "RDMA Read Request", .run = a_read_request_too_far},
      {.rule = "ddp.data-sink.offset.invalid", .variant = "after the buffer", .run = an_mo_after_the_buffer},
      {.rule = "ddp.data-sink.offset.invalid", .variant = "2^32 - 4", .run = the_last_mo},
      {.rule = "ddp.data-sink.offset.invalid", .variant = "first segment", .run = an_mo_at_the_begin},
      {.rule = "ddp.data-sink.offset.invalid", .variant = "skips bytes", .run = an_mo_that_skips},
      {.rule = "ddp.data-sink.offset.invalid", .variant = "goes back", .run = an_mo_that_decreases},
      {.rule = "ddp.data-sink.length.buffer-too-small", .variant = "by one byte", .run = one_byte_too_long},
      {.rule = "ddp.data-sink.length.buffer-too-small", .variant = "by far", .run = much_too_long},
      {.rule = "ddp.data-sink.length.buffer-too-small", .variant = "last segment", .run = too_long_in_its_last_segment},
      {.rule = "ddp.data-sink.length.buffer-too-small",
       .variant = "middle segment",
       .run = too_long_in_a_middle_segment},
      {.rule = "ddp.data-sink.length.buffer-too-small", .variant = "equal to the buffer", .run = as_long_as_the_buffer},
      {.rule = "ddp.data-sink.length.zero-delivered", .variant = "at the start", .run = nothing_at_the_begin},
      {.rule = "ddp.data-sink.length.zero-delivered", .variant = "after the buffer", .run = nothing_after_the_buffer},
      {.rule = "ddp.data-sink.length.zero-delivered", .variant = "last segment", .run = nothing_as_the_last},
      {.rule = "ddp.data-sink.offset.out-of-order", .variant = "two swapped", .run = two_segments_swapped},
      {.rule = "ddp.data-sink.offset.out-of-order", .variant = "middle segment late", .run = the_middle_arrives_late},
      {.rule = "ddp.data-sink.message.interleaved", .variant = "an RDMA Write in a Send", .run = a_write_inside_a_send},
      {.rule = "ddp.data-sink.message.interleaved", .variant = "a Send in an RDMA Write", .run = a_send_inside_a_write},
      {.rule = "ddp.data-sink.message.interleaved",
       .variant = "an RDMA Read Response in a Send",
       .run = a_response_inside_a_send},
  };
  return cases;
}

}  // namespace rdmawire::conformance::iwarp::ddp_untagged_cases
