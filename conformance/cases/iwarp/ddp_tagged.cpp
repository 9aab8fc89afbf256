/// Tagged buffers: RFC 5041, 4.2 (the header), 5.2 (zero-length messages), 7.1 (checks of a receiver), 7.2 (its
/// errors), 8.2 (STags of streams).

#include "conformance/cases/files.hpp"
#include "conformance/cases/iwarp/bench.hpp"

namespace rdmawire::conformance::iwarp::ddp_tagged_cases {
namespace {

constexpr std::uint64_t end = 8192;  // length of the default region

/// Checks that the segment ends the stream with this Terminate, and that the region's bytes from `offset` stay zero.
/// One receive is posted.
void refused(Connected& qp, const Stimulus& bad, const Expectation& terminate, std::uint64_t offset = 0,
             std::size_t bytes = 64) {
  qp >> bad;
  qp.refuses(terminate);
  qp.holds(offset, untouched(bytes));
  qp.fail_or_are_flushed(0, 0);
}
/// Checks that the segment was accepted, and that the stream continues to work.
void accepted(Connected& qp) {
  qp >> send(1, pattern_bytes(16));
  qp.completes(0);
  qp.received(0, pattern_bytes(16));
  qp << silence();
}

// Layer 1, type 1, code 4.
void version(IwarpBench& bench, unsigned dv) {
  Connected& qp = bench.connect({.receives = 1});
  refused(qp, write(qp.stag(), qp.to(), pattern_bytes(16)).with<Ddp, "dv">(dv, "of another DDP version"),
          a_terminate(1, 1, 0x04));
}
void version_0(IwarpBench& bench) { version(bench, 0); }
void version_2(IwarpBench& bench) { version(bench, 2); }
void version_3(IwarpBench& bench) { version(bench, 3); }
void version_of_a_later_segment(IwarpBench& bench) {
  Connected& qp = bench.connect({.receives = 1});
  qp >> write_part(qp.stag(), qp.to(), pattern_bytes(16), false);
  refused(qp, write_part(qp.stag(), qp.to(16), pattern_bytes(16), true).with<Ddp, "dv">(0, "of another DDP version"),
          a_terminate(1, 1, 0x04), 16);
}
void version_of_nothing(IwarpBench& bench) {
  Connected& qp = bench.connect({.receives = 1});
  refused(qp, write(qp.stag(), qp.to(), "").with<Ddp, "dv">(2, "of another DDP version"), a_terminate(1, 1, 0x04));
}

// 5.2: STag and TO of a zero-length message are ignored.
void nothing_to_unused_stag(IwarpBench& bench) {
  Connected& qp = bench.connect({.receives = 1});
  qp >> write(unknown_stag, 0x1234, "");
  accepted(qp);
}
void nothing_to_stag_0(IwarpBench& bench) {
  Connected& qp = bench.connect({.receives = 1});
  qp >> write(0, 0, "");
  accepted(qp);
}
void nothing_behind_the_end(IwarpBench& bench) {
  Connected& qp = bench.connect({.receives = 1});
  qp >> write(qp.stag(), qp.to(end + 100), "") >> write(qp.stag(), ~std::uint64_t{0}, "");
  accepted(qp);
}
void nothing_without_the_right(IwarpBench& bench) {
  Connected& qp = bench.connect({.receives = 1, .region_access = {"local_write"}});
  qp >> write(qp.stag(), qp.to(), "");
  accepted(qp);
}
void nothing_in_another_domain(IwarpBench& bench) {
  Connected& qp = bench.connect({.receives = 1});
  const peer::Region foreign = bench.region(4096, {"local_write", "remote_write"}, 1);
  qp >> write(foreign.rkey(), foreign.addr(), "");
  accepted(qp);
}

// Layer 1, type 1, code 0.
void an_unknown_stag(IwarpBench& bench) {
  Connected& qp = bench.connect({.receives = 1});
  refused(qp, write(unknown_stag, qp.to(), pattern_bytes(16)), a_terminate(1, 1, 0x00));
}
void stag_0(IwarpBench& bench) {
  Connected& qp = bench.connect({.receives = 1});
  refused(qp, write(0, qp.to(), pattern_bytes(16)), a_terminate(1, 1, 0x00));
}
void another_key_of_the_stag(IwarpBench& bench) {
  Connected& qp = bench.connect({.receives = 1});
  refused(qp, write(qp.stag() ^ 1, qp.to(), pattern_bytes(16)), a_terminate(1, 1, 0x00));
}
void another_index_of_the_stag(IwarpBench& bench) {
  Connected& qp = bench.connect({.receives = 1});
  refused(qp, write(qp.stag() ^ 0x80000000, qp.to(), pattern_bytes(16)), a_terminate(1, 1, 0x00));
}
void a_stag_that_is_gone(IwarpBench& bench) {
  Connected& qp = bench.connect({.receives = 1});
  peer::Region gone = bench.region(4096, {"local_write", "remote_write"});
  const std::uint32_t stag = gone.rkey();
  const std::uint64_t to = gone.addr();
  bench.take(gone.release(), "the region deregistered");
  refused(qp, write(stag, to, pattern_bytes(16)), a_terminate(1, 1, 0x00));
}
void an_unknown_stag_in_a_later_segment(IwarpBench& bench) {
  Connected& qp = bench.connect({.receives = 1});
  qp >> write_part(qp.stag(), qp.to(), pattern_bytes(16), false);
  refused(qp, write_part(unknown_stag, qp.to(16), pattern_bytes(16), true), a_terminate(1, 1, 0x00), 16);
}

// Layer 1, type 1, code 2.
void another_domain(IwarpBench& bench) {
  Connected& qp = bench.connect({.receives = 1});
  const peer::Region foreign = bench.region(4096, {"local_write", "remote_write"}, 1);
  refused(qp, write(foreign.rkey(), foreign.addr(), pattern_bytes(16)), a_terminate(1, 1, 0x02));
  bench.holds(foreign, 0, untouched(64));
}
// A stream of the other domain, on which the STag is valid.
void another_domains_stream(IwarpBench& bench) {
  Connected& qp = bench.connect({.receives = 1});
  Connected& other = bench.connect({.receives = 1, .domain = 1});
  refused(qp, write(other.stag(), other.to(), pattern_bytes(16)), a_terminate(1, 1, 0x02));
  other.holds(0, untouched(64));
  other >> write(other.stag(), other.to(), pattern_bytes(16));
  accepted(other);
  other.holds(0, pattern_bytes(16));
}
// Streams of one protection domain share its STags.
void the_same_domain(IwarpBench& bench) {
  Connected& qp = bench.connect({.receives = 1});
  Connected& other = bench.connect({.receives = 1});
  qp >> write(other.stag(), other.to(), pattern_bytes(16));
  accepted(qp);
  other.holds(0, pattern_bytes(16));
}
// A type 2B window belongs to the stream that it was bound through.
void another_streams_window(IwarpBench& bench) {
  Connected& qp = bench.connect({.receives = 1});
  Connected& other =
      bench.connect({.receives = 1, .region_access = {"local_write", "remote_write", "remote_read", "mw_bind"}});
  other.opens();
  const BoundWindow bound = bench.bind_window(other, 0, 64, {"remote_write"});
  refused(qp, write(bound.rkey, other.to(), pattern_bytes(16)), a_terminate(1, 1, 0x02));
  other.holds(0, untouched(64));
}

// Layer 1, type 1, code 1. A segment that crosses a bound is not placed at all, because 7.1 requires the check before
// placement.
void below_the_base(IwarpBench& bench) {
  Connected& qp = bench.connect({.receives = 1});
  refused(qp, write(qp.stag(), qp.to() - 8, pattern_bytes(8)), a_terminate(1, 1, 0x01));
}
void across_the_base(IwarpBench& bench) {
  Connected& qp = bench.connect({.receives = 1});
  refused(qp, write(qp.stag(), qp.to() - 1, pattern_bytes(8)), a_terminate(1, 1, 0x01));
}
void after_the_end(IwarpBench& bench) {
  Connected& qp = bench.connect({.receives = 1});
  refused(qp, write(qp.stag(), qp.to(end), pattern_bytes(8)), a_terminate(1, 1, 0x01), end - 64);
}
void far_after_the_end(IwarpBench& bench) {
  Connected& qp = bench.connect({.receives = 1});
  refused(qp, write(qp.stag(), qp.to(std::uint64_t{1} << 40), pattern_bytes(8)), a_terminate(1, 1, 0x01), end - 64);
}
void across_the_end_by_one(IwarpBench& bench) {
  Connected& qp = bench.connect({.receives = 1});
  refused(qp, write(qp.stag(), qp.to(end - 7), pattern_bytes(8)), a_terminate(1, 1, 0x01), end - 64);
}
void across_an_odd_end(IwarpBench& bench) {
  Connected& qp = bench.connect({.receives = 1, .region_bytes = 4099});
  refused(qp, write(qp.stag(), qp.to(4096), pattern_bytes(4)), a_terminate(1, 1, 0x01), 4099 - 64);
}
void across_the_end_in_a_later_segment(IwarpBench& bench) {
  Connected& qp = bench.connect({.receives = 1});
  qp >> write_part(qp.stag(), qp.to(end - 32), pattern_bytes(16), false);
  refused(qp, write_part(qp.stag(), qp.to(end - 16), pattern_bytes(17), true), a_terminate(1, 1, 0x01), end - 16, 16);
  qp.holds(end - 32, pattern_bytes(16));
}
void to_the_ends(IwarpBench& bench) {
  Connected& qp = bench.connect({.receives = 1});
  qp >> write(qp.stag(), qp.to(), pattern_bytes(16)) >> write(qp.stag(), qp.to(end - 16), pattern_bytes(16, 0x40));
  accepted(qp);
  qp.holds(0, pattern_bytes(16));
  qp.holds(end - 16, pattern_bytes(16, 0x40));
}

// Layer 1, type 1, code 3. The TO of such a segment is always out of bounds as well.
void around_the_end_of_all(IwarpBench& bench) {
  Connected& qp = bench.connect({.receives = 1});
  refused(qp, write(qp.stag(), ~std::uint64_t{0} - 3, pattern_bytes(16)), a_terminate(1, 1, 0x03));
}
void around_into_the_buffer(IwarpBench& bench) {
  Connected& qp = bench.connect({.receives = 1});
  refused(qp, write(qp.stag(), ~std::uint64_t{0}, pattern_bytes(1200)), a_terminate(1, 1, 0x03));
}

}  // namespace

std::span<const Case> all() {
  static constexpr Case cases[] = {
      {.rule = "ddp.data-sink.version.tagged", .variant = "0", .run = version_0},
      {.rule = "ddp.data-sink.version.tagged", .variant = "2", .run = version_2},
      {.rule = "ddp.data-sink.version.tagged", .variant = "3", .run = version_3},
      {.rule = "ddp.data-sink.version.tagged", .variant = "last segment", .run = version_of_a_later_segment},
      {.rule = "ddp.data-sink.version.tagged", .variant = "no bytes", .run = version_of_nothing},
      {.rule = "ddp.data-sink.length.zero-stag-unchecked", .variant = "unknown STag", .run = nothing_to_unused_stag},
      {.rule = "ddp.data-sink.length.zero-stag-unchecked", .variant = "STag 0", .run = nothing_to_stag_0},
      {.rule = "ddp.data-sink.length.zero-stag-unchecked", .variant = "out of bounds", .run = nothing_behind_the_end},
      {.rule = "ddp.data-sink.length.zero-stag-unchecked",
       .variant = "without the right",
       .run = nothing_without_the_right},
      {.rule = "ddp.data-sink.length.zero-stag-unchecked",
       .variant = "another protection domain",
       .run = nothing_in_another_domain},
      {.rule = "ddp.data-sink.access.unknown-stag", .variant = "unused STag", .run = an_unknown_stag},
      {.rule = "ddp.data-sink.access.unknown-stag", .variant = "0", .run = stag_0},
      {.rule = "ddp.data-sink.access.unknown-stag", .variant = "lowest bit", .run = another_key_of_the_stag},
      {.rule = "ddp.data-sink.access.unknown-stag", .variant = "highest bit", .run = another_index_of_the_stag},
      {.rule = "ddp.data-sink.access.unknown-stag", .variant = "deregistered", .run = a_stag_that_is_gone},
      {.rule = "ddp.data-sink.access.unknown-stag",
       .variant = "last segment",
       .run = an_unknown_stag_in_a_later_segment},
      {.rule = "ddp.data-sink.access.other-stream", .variant = "protection domain", .run = another_domain},
      {.rule = "ddp.data-sink.access.other-stream",
       .variant = "stream of another protection domain",
       .run = another_domains_stream},
      {.rule = "ddp.data-sink.access.other-stream",
       .variant = "stream of the same protection domain",
       .run = the_same_domain},
      {.rule = "ddp.data-sink.access.other-stream",
       .variant = "window",
       .needs = Need::memory_windows,
       .run = another_streams_window},
      {.rule = "ddp.data-sink.access.bounds", .variant = "below the base", .run = below_the_base},
      {.rule = "ddp.data-sink.access.bounds", .variant = "across the base", .run = across_the_base},
      {.rule = "ddp.data-sink.access.bounds", .variant = "after the end", .run = after_the_end},
      {.rule = "ddp.data-sink.access.bounds", .variant = "far after the end", .run = far_after_the_end},
      {.rule = "ddp.data-sink.access.bounds", .variant = "across the end by one", .run = across_the_end_by_one},
      {.rule = "ddp.data-sink.access.bounds", .variant = "across an odd end", .run = across_an_odd_end},
      {.rule = "ddp.data-sink.access.bounds", .variant = "last segment", .run = across_the_end_in_a_later_segment},
      {.rule = "ddp.data-sink.access.bounds", .variant = "to both bounds", .run = to_the_ends},
      {.rule = "ddp.data-sink.access.to-wrap",
       .variant = "16 bytes",
       .run = around_the_end_of_all,
       .possible_problems = "the TO is out of bounds as well, which has another code"},
      {.rule = "ddp.data-sink.access.to-wrap",
       .variant = "last byte of the address space, and more",
       .run = around_into_the_buffer,
       .possible_problems = "the TO is out of bounds as well, which has another code"},
  };
  return cases;
}

}  // namespace rdmawire::conformance::iwarp::ddp_tagged_cases
