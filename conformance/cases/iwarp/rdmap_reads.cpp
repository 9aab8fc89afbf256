/// RDMA Reads: RFC 5040, 4.8 (Terminates for Reads), 5.2 (requests and responses), 5.5 (order), 6.1 (outstanding
/// Reads), 7.2 (checks of a responder), RFC 5041, 7.1 (placement of responses), RFC 6581, 9.1 (depths).

#include <fmt/format.h>

#include "conformance/cases/files.hpp"
#include "conformance/cases/iwarp/bench.hpp"

namespace rdmawire::conformance::iwarp::rdmap_reads_cases {
namespace {

constexpr std::uint64_t end = 8192;  // length of the default region

Read of(const Connected& qp, std::uint32_t size = 8, std::uint64_t offset = 0) {
  return {.size = size, .source_stag = qp.stag(), .source_to = qp.to(offset)};
}

// 5.2.1 requires queue 1. RFC 5040 does not define the error for other queue numbers.
void wrong_queue(IwarpBench& bench, std::uint32_t qn) {
  Connected& qp = bench.connect({.receives = 1});
  qp >> read_request(1, of(qp)).with<DdpUntagged, "qn">(qn, fmt::format("on QN {}", qn));
  qp.refuses(any_terminate());
  qp.fail_or_are_flushed(0, 0);
}
void on_queue_0(IwarpBench& bench) { wrong_queue(bench, 0); }
void on_queue_2(IwarpBench& bench) { wrong_queue(bench, 2); }

// Layer 1, type 2, code 4.
void offset(IwarpBench& bench, std::uint32_t mo) {
  Connected& qp = bench.connect();
  qp >> read_request(1, of(qp)).with<DdpUntagged, "mo">(mo, fmt::format("at MO {}", mo));
  qp.refuses(a_terminate(1, 2, 0x04));
}
void at_mo_4(IwarpBench& bench) { offset(bench, 4); }
void at_mo_28(IwarpBench& bench) { offset(bench, 28); }
void at_the_last_mo(IwarpBench& bench) { offset(bench, 0xffffffff); }

// 4.2, figure 5: no data follows the header. RFC 5040 does not define the error.
void trailing(IwarpBench& bench, std::size_t more) {
  Connected& qp = bench.connect();
  qp >> read_request(1, of(qp)).changed([&](Frame& frame) { frame.payload.assign(more, 0x5a); },
                                        fmt::format("with {} trailing bytes", more));
  qp.refuses(any_terminate());
}
void one_byte_after(IwarpBench& bench) { trailing(bench, 1); }
void four_bytes_after(IwarpBench& bench) { trailing(bench, 4); }
void many_bytes_after(IwarpBench& bench) { trailing(bench, 200); }

// 5.2.1: an empty response, and the source is ignored.
void nothing_is_read(IwarpBench& bench, const Read& read, const ConnectOptions& options = {}) {
  Connected& qp = bench.connect(options);
  qp >> read_request(1, read);
  qp << a_read_response(read.sink_stag, read.sink_to).carrying("").where("the last segment", [](const Seen& seen) {
    return seen.get<Ddp, "last">() == 1;
  });
  qp.fill(0, pattern_bytes(8));
  if (options.region_access.size() > 1) {
    qp >> read_request(2, of(qp));
    qp << an(RdmapOperation::read_response).carrying(pattern_bytes(8));
  }
}
void nothing_of_unused_stag(IwarpBench& bench) {
  nothing_is_read(bench, {.size = 0, .source_stag = unknown_stag, .source_to = 0x1234});
}
void nothing_of_stag_0(IwarpBench& bench) { nothing_is_read(bench, {.size = 0}); }
void nothing_into_stag_0(IwarpBench& bench) {
  nothing_is_read(bench, {.size = 0, .source_stag = unknown_stag, .sink_stag = 0, .sink_to = ~std::uint64_t{0}});
}
void nothing_of_another_domain(IwarpBench& bench) {
  const peer::Region foreign = bench.region(4096, {"local_write", "remote_read"}, 1);
  nothing_is_read(bench, {.size = 0, .source_stag = foreign.rkey(), .source_to = foreign.addr()});
}

// The empty response contains no data of an earlier one.
void nothing_after_something(IwarpBench& bench) {
  Connected& qp = bench.connect();
  qp.fill(0, pattern_bytes(8));
  Read none = of(qp, 0);
  none.sink_stag = 0x6262;
  qp.together({read_request(1, of(qp)), read_request(2, none)});
  qp << a_read_response(Read().sink_stag, Read().sink_to).carrying(pattern_bytes(8));
  qp << a_read_response(none.sink_stag, none.sink_to).carrying("");
}

// Figure 9: layer 0, type 1. Figure 10: with the request's header (R).
Expectation protection_error(std::uint8_t code) {
  return a_terminate(0, 1, code).where("with R", [](const Seen& seen) {
    return seen.get<Terminate, "rdma_header_included">() == 1;
  });
}
void refused(IwarpBench& bench, const std::function<Read(const Connected&)>& read, std::uint8_t code,
             const ConnectOptions& options = {}) {
  Connected& qp = bench.connect(options);
  qp >> read_request(1, read(qp));
  qp.refuses(protection_error(code));
}
void an_unknown_stag(IwarpBench& bench) {
  refused(
      bench, [](const Connected& qp) { return Read{.source_stag = unknown_stag, .source_to = qp.to()}; }, 0x00);
}
void another_key_of_the_stag(IwarpBench& bench) {
  refused(
      bench, [](const Connected& qp) { return Read{.source_stag = qp.stag() ^ 1, .source_to = qp.to()}; }, 0x00);
}
void a_stag_that_is_gone(IwarpBench& bench) {
  peer::Region gone = bench.region(4096, {"local_write", "remote_read"});
  const Read read{.source_stag = gone.rkey(), .source_to = gone.addr()};
  bench.take(gone.release(), "the region deregistered");
  refused(
      bench, [&](const Connected&) { return read; }, 0x00);
}
void across_the_end(IwarpBench& bench) {
  refused(
      bench, [](const Connected& qp) { return of(qp, 8, end - 7); }, 0x01);
}
void after_the_end(IwarpBench& bench) {
  refused(
      bench, [](const Connected& qp) { return of(qp, 8, end); }, 0x01);
}
void below_the_base(IwarpBench& bench) {
  refused(
      bench, [](const Connected& qp) { return of(qp, 8, ~std::uint64_t{0}); }, 0x01);
}
void longer_than_the_region(IwarpBench& bench) {
  refused(
      bench, [](const Connected& qp) { return of(qp, 0xffffffff); }, 0x01);
}
void without_the_right(IwarpBench& bench) {
  refused(bench, [](const Connected& qp) { return of(qp); }, 0x02, {.region_access = {"local_write", "remote_write"}});
}
void another_domain(IwarpBench& bench) {
  const peer::Region foreign = bench.region(4096, {"local_write", "remote_read"}, 1);
  refused(
      bench, [&](const Connected&) { return Read{.source_stag = foreign.rkey(), .source_to = foreign.addr()}; }, 0x03);
}
void another_domains_stream(IwarpBench& bench) {
  const Connected& other = bench.connect({.domain = 1});
  refused(
      bench, [&](const Connected&) { return of(other); }, 0x03);
}
void another_streams_window(IwarpBench& bench) {
  Connected& other = bench.connect({.region_access = {"local_write", "remote_write", "remote_read", "mw_bind"}});
  other.opens();
  const BoundWindow bound = bench.bind_window(other, 0, 64, {"remote_read"});
  refused(
      bench, [&](const Connected&) { return Read{.source_stag = bound.rkey, .source_to = other.to()}; }, 0x03);
}
void around_the_end_of_all(IwarpBench& bench) {
  refused(
      bench,
      [](const Connected& qp) {
        return Read{.size = 16, .source_stag = qp.stag(), .source_to = ~std::uint64_t{0} - 3};
      },
      0x04);
}

// 5.2.2, 5.5 rule 20: responses are sent in the order of the requests.
void answers_in_order(IwarpBench& bench, const std::vector<std::uint32_t>& sizes) {
  Connected& qp = bench.connect();
  qp.fill(0, pattern_bytes(8192));
  std::vector<Stimulus> requests;
  for (std::uint32_t i = 0; i < sizes.size(); ++i) {
    Read read = of(qp, sizes[i], 16 * i);
    read.sink_stag = 0x1000 + i;
    requests.push_back(read_request(i + 1, read));
  }
  qp.together(requests);
  for (std::uint32_t i = 0; i < sizes.size(); ++i) {
    std::string come;
    do {
      come += qp.wait(a_read_response(0x1000 + i, Read().sink_to + come.size())).payload();
    } while (come.size() < sizes[i]);
    bench.require(come == pattern_bytes(8192).substr(16 * i, sizes[i]),
                  fmt::format("the {} bytes of request {}", sizes[i], i + 1),
                  fmt::format("{} bytes, or other content", come.size()));
  }
}
void four_short_ones(IwarpBench& bench) { answers_in_order(bench, {8, 8, 8, 8}); }
void a_long_one_first(IwarpBench& bench) { answers_in_order(bench, {7000, 8, 24, 8}); }

/// Returns the depth of the device's enhanced frame. Ends the case if it sent none.
template <FixedString Name>
std::uint32_t replied(Connected& qp) {
  const View<MpaFrame> frame(qp.setup->bytes.data());
  if (frame.get<"enhanced">() == 0 || qp.setup->bytes.size() < MpaFrame::size + MpaEnhanced::size)
    end_case(Verdict::unsupported, "the device negotiates no depths: " + qp.setup->text());
  return static_cast<std::uint32_t>(View<MpaEnhanced>(qp.setup->bytes.data() + MpaFrame::size).template get<Name>());
}

// 6.1, RFC 6581, 9.1: requests beyond the IRD are an error and must not be lost silently.
void beyond_the_depth(IwarpBench& bench, std::uint8_t depth, std::uint32_t more) {
  Connected& qp = bench.connect({.enhanced = Enhanced{.ird = 4, .ord = depth}, .reads_at_once = depth});
  const std::uint32_t ird = replied<"ird">(qp);
  bench.require(ird >= depth && ird < 64, fmt::format("an IRD of {}", depth), fmt::format("{}", ird));
  std::vector<Stimulus> requests;
  for (std::uint32_t msn = 1; msn <= ird + more; ++msn) requests.push_back(read_request(msn, of(qp, end)));
  qp.together(requests);
  std::uint64_t come = 0;
  for (;;) {
    const auto seen = qp.next();
    if (!seen) break;
    if (seen->is(RdmapOperation::terminate)) {
      bench.note(seen->text());
      qp << stream_closed();
      return qp.ends();
    }
    if (!seen->is(RdmapOperation::read_response))
      bench.deviate(Verdict::fail, "RDMA Read Responses, or a Terminate", seen->text());
    come += seen->payload().size();
  }
  const std::uint64_t answered = come / end;
  bench.require(answered == ird + more, "a Terminate", fmt::format("{} of {} answered", answered, ird + more));
  end_case(Verdict::inconclusive, "all requests were answered, possibly as fast as they arrived");
}
void one_more_than_2(IwarpBench& bench) { beyond_the_depth(bench, 2, 1); }
void many_more_than_2(IwarpBench& bench) { beyond_the_depth(bench, 2, 14); }
void many_more_than_3(IwarpBench& bench) { beyond_the_depth(bench, 3, 14); }
void many_more_than_1(IwarpBench& bench) { beyond_the_depth(bench, 1, 14); }

// 6.1: at most ORD outstanding Reads.
void within_the_depth(IwarpBench& bench, const ConnectOptions& options, std::uint32_t ord) {
  Connected& qp = bench.connect(options);
  qp.opens();
  const std::uint32_t posted = ord + 3;
  for (std::uint32_t i = 0; i < posted; ++i) qp.device_reads(i, 8, 8 * i);
  std::deque<Seen> outstanding;
  std::uint32_t asked = 0;
  while (asked < posted || !outstanding.empty()) {
    while (asked < posted && outstanding.size() < ord) outstanding.push_back(qp.wait(a_read_request(++asked, 8)));
    if (asked < posted) qp << silence();
    qp >> response_to(outstanding.front(), pattern_bytes(8, static_cast<std::uint8_t>(asked)));
    outstanding.pop_front();
  }
  for (std::uint32_t i = 0; i < posted; ++i) qp.completes(i);
}
void as_responder(IwarpBench& bench, std::uint8_t depth) {
  within_the_depth(bench, {.enhanced = Enhanced{.ird = depth, .ord = 4}, .own_reads = depth}, depth);
}
void depth_1(IwarpBench& bench) { as_responder(bench, 1); }
void depth_2(IwarpBench& bench) { as_responder(bench, 2); }
void depth_3(IwarpBench& bench) { as_responder(bench, 3); }
void depth_5(IwarpBench& bench) { as_responder(bench, 5); }
// The peer's IRD applies if it is less than the application's ORD.
void the_other_ends_depth(IwarpBench& bench) {
  within_the_depth(bench, {.enhanced = Enhanced{.ird = 3, .ord = 4}, .own_reads = 8}, 3);
}
void depth_3_as_initiator(IwarpBench& bench) {
  within_the_depth(bench, {.device_initiates = true, .enhanced = Enhanced{.ird = 3, .ord = 3}, .own_reads = 3}, 3);
}

// 5.5 rules 12 and 17.
void a_write_is_read_back(IwarpBench& bench) {
  Connected& qp = bench.connect();
  qp.together({write(qp.stag(), qp.to(), pattern_bytes(32)), read_request(1, of(qp, 32))});
  qp << an(RdmapOperation::read_response).carrying(pattern_bytes(32));
}
void the_last_write_is_read_back(IwarpBench& bench) {
  Connected& qp = bench.connect();
  qp.fill(0, pattern_bytes(32, 0x80));
  qp.together({write(qp.stag(), qp.to(), pattern_bytes(32)),
               write_part(qp.stag(), qp.to(), pattern_bytes(16, 0x50), false),
               write_part(qp.stag(), qp.to(16), pattern_bytes(16, 0x60), true), read_request(1, of(qp, 32))});
  qp << an(RdmapOperation::read_response).carrying(pattern_bytes(32, 0x50));
}
void a_long_write_is_read_back(IwarpBench& bench) {
  Connected& qp = bench.connect();
  const std::string all = pattern_bytes(6000);
  for (std::size_t at = 0; at < all.size(); at += 1000)
    qp >> write_part(qp.stag(), qp.to(at), all.substr(at, 1000), at + 1000 == all.size());
  qp >> read_request(1, of(qp, 6000));
  std::string come;
  for (const Seen& one : qp.message(RdmapOperation::read_response)) come += one.payload();
  bench.require(come == all, "the bytes that were written", "others");
}

// 5.5, note to rule 12: without a fence, the Read may return the data of a later RDMA Write.
void a_write_after_a_read(IwarpBench& bench) {
  Connected& qp = bench.connect();
  qp.fill(0, pattern_bytes(32));
  qp.together({read_request(1, of(qp, 32)), write(qp.stag(), qp.to(), pattern_bytes(32, 0x80))});
  const std::string come = qp.wait(an(RdmapOperation::read_response)).payload();
  const bool old = come == pattern_bytes(32), later = come == pattern_bytes(32, 0x80);
  bench.require(come.size() == 32, "32 bytes", fmt::format("{}", come.size()));
  end_case(Verdict::may, old     ? "an RDMA Read returns the data before a later RDMA Write"
                         : later ? "an RDMA Read returns the data of a later RDMA Write"
                                 : "an RDMA Read returns a mix of both");
}

// The device as the requester, with a sink that is not remotely accessible.
const peer::Names closed = {"local_write"};
struct OwnRead {
  Connected& qp;
  Seen request;
};
OwnRead own_read(IwarpBench& bench, std::uint32_t size = 16, std::uint64_t offset = 64) {
  Connected& qp = bench.connect({.receives = 1, .region_access = closed});
  qp.opens();
  qp.device_reads(7, size, offset);
  Seen request = qp.wait(a_read_request(1, size));
  return {qp, std::move(request)};
}
/// Checks that the stream ends, with or without a Terminate, and that the RDMA Read fails.
void ends_in_error(Connected& qp) {
  qp.is_refused_by(qp.wait(a_refusal()));
  qp.fails_or_is_flushed(7);
}

// 5.2.2: the check against the request is optional for the data sink. RFC 5041, 7.1: the check of the access right is
// not.
void to_memory_that_is_not_open(IwarpBench& bench) {
  const peer::Region other = bench.region(4096, closed);
  auto [qp, request] = own_read(bench);
  qp >> read_response(other.rkey(), other.addr(), pattern_bytes(16));
  ends_in_error(qp);
  bench.holds(other, 0, untouched());
  qp.holds(0, untouched(256));
}
void to_an_unknown_stag(IwarpBench& bench) {
  auto [qp, request] = own_read(bench);
  qp >> read_response(unknown_stag, qp.to(64), pattern_bytes(16));
  ends_in_error(qp);
  qp.holds(0, untouched(256));
}
void to_another_domain(IwarpBench& bench) {
  const peer::Region foreign = bench.region(4096, {"local_write", "remote_write"}, 1);
  auto [qp, request] = own_read(bench);
  qp >> read_response(foreign.rkey(), foreign.addr(), pattern_bytes(16));
  ends_in_error(qp);
  bench.holds(foreign, 0, untouched());
  qp.holds(0, untouched(256));
}
void to_another_offset(IwarpBench& bench) {
  auto [qp, request] = own_read(bench);
  qp >> response_to(request, pattern_bytes(16), 128);
  ends_in_error(qp);
  qp.holds(0, untouched(256));
}
void one_byte_early(IwarpBench& bench) {
  auto [qp, request] = own_read(bench);
  qp >> response_to(request, pattern_bytes(16), ~std::uint64_t{0});
  ends_in_error(qp);
  qp.holds(0, untouched(64));
}
void to_another_offset_in_a_later_segment(IwarpBench& bench) {
  auto [qp, request] = own_read(bench, 32);
  qp >> response_to(request, pattern_bytes(16), 0, false) >> response_to(request, pattern_bytes(16), 64, true);
  ends_in_error(qp);
  qp.holds(0, untouched(64));
  qp.holds(96, untouched(64));
}
void too_short(IwarpBench& bench) {
  auto [qp, request] = own_read(bench);
  qp >> response_to(request, pattern_bytes(8));
  if (const auto seen = qp.wait_or_silence(a_refusal())) {
    qp.is_refused_by(*seen);
    qp.fails_or_is_flushed(7);
  } else {
    bench.note("the device accepts a response that is too short");
    qp.completes(7);
  }
  qp.holds(72, untouched());
  qp.holds(0, untouched(64));
}

// RFC 5041, 7.1, item 4: no data is placed beyond the buffer, and the response is rejected.
void too_long(IwarpBench& bench, std::uint32_t size, const std::vector<std::pair<std::size_t, bool>>& segments) {
  auto [qp, request] = own_read(bench, size);
  std::uint64_t at = 0;
  for (const auto& [length, last] : segments) {
    qp >> response_to(request, pattern_bytes(length), at, last);
    at += length;
  }
  ends_in_error(qp);
  qp.holds(0, untouched(64));
  qp.holds(64 + size, untouched(512));
}
void by_one_byte(IwarpBench& bench) { too_long(bench, 16, {{17, true}}); }
void by_far(IwarpBench& bench) { too_long(bench, 16, {{1200, true}}); }
void by_far_and_not_the_last(IwarpBench& bench) { too_long(bench, 16, {{1200, false}}); }
void by_a_segment_after_it(IwarpBench& bench) { too_long(bench, 16, {{16, false}, {16, true}}); }
void by_segments_without_an_end(IwarpBench& bench) {
  too_long(bench, 16, {{16, false}, {64, false}, {64, false}, {64, false}, {64, false}});
}
void where_nothing_was_asked_for(IwarpBench& bench) { too_long(bench, 0, {{16, true}}); }

// 7.1: a Terminate, and no data is placed.
void without_a_request(IwarpBench& bench) {
  Connected& qp = bench.connect({.receives = 1});
  qp >> read_response(qp.stag(), qp.to(), pattern_bytes(16));
  qp.refuses(any_terminate());
  qp.holds(0, untouched());
  qp.fail_or_are_flushed(0, 0);
}
void of_nothing_without_a_request(IwarpBench& bench) {
  Connected& qp = bench.connect({.receives = 1});
  qp >> read_response(qp.stag(), qp.to(), "");
  qp.refuses(any_terminate());
  qp.fail_or_are_flushed(0, 0);
}
void a_second_response(IwarpBench& bench) {
  auto [qp, request] = own_read(bench);
  qp >> response_to(request, pattern_bytes(16));
  qp.completes(7);
  qp >> response_to(request, pattern_bytes(16, 0x80));
  qp.refuses(any_terminate());
  qp.holds(64, pattern_bytes(16));
  qp.fail_or_are_flushed(0, 0);
}

}  // namespace

std::span<const Case> all() {
  constexpr Role requester = Role::requester;
  static constexpr Case cases[] = {
      {.rule = "rdmap.responder.read.wrong-queue", .variant = "0", .run = on_queue_0},
      {.rule = "rdmap.responder.read.wrong-queue", .variant = "2", .run = on_queue_2},
      {.rule = "rdmap.responder.read.offset", .variant = "4", .run = at_mo_4},
      {.rule = "rdmap.responder.read.offset", .variant = "28", .run = at_mo_28},
      {.rule = "rdmap.responder.read.offset", .variant = "2^32 - 1", .run = at_the_last_mo},
      {.rule = "rdmap.responder.read.trailing-bytes", .variant = "1", .run = one_byte_after},
      {.rule = "rdmap.responder.read.trailing-bytes", .variant = "4", .run = four_bytes_after},
      {.rule = "rdmap.responder.read.trailing-bytes", .variant = "200", .run = many_bytes_after},
      {.rule = "rdmap.responder.read.zero-length", .variant = "unknown STag", .run = nothing_of_unused_stag},
      {.rule = "rdmap.responder.read.zero-length", .variant = "STag 0", .run = nothing_of_stag_0},
      {.rule = "rdmap.responder.read.zero-length", .variant = "into STag 0", .run = nothing_into_stag_0},
      {.rule = "rdmap.responder.read.zero-length",
       .variant = "another protection domain",
       .run = nothing_of_another_domain},
      {.rule = "rdmap.responder.read.zero-length",
       .variant = "after a Read of 8 bytes",
       .run = nothing_after_something},
      {.rule = "rdmap.responder.read.access", .variant = "unknown STag", .run = an_unknown_stag},
      {.rule = "rdmap.responder.read.access", .variant = "lowest bit of the STag", .run = another_key_of_the_stag},
      {.rule = "rdmap.responder.read.access", .variant = "deregistered", .run = a_stag_that_is_gone},
      {.rule = "rdmap.responder.read.access", .variant = "across the end by one", .run = across_the_end},
      {.rule = "rdmap.responder.read.access", .variant = "after the end", .run = after_the_end},
      {.rule = "rdmap.responder.read.access", .variant = "below the base", .run = below_the_base},
      {.rule = "rdmap.responder.read.access", .variant = "2^32 - 1 bytes", .run = longer_than_the_region},
      {.rule = "rdmap.responder.read.access", .variant = "without the right", .run = without_the_right},
      {.rule = "rdmap.responder.read.access", .variant = "another protection domain", .run = another_domain},
      {.rule = "rdmap.responder.read.access",
       .variant = "stream of another protection domain",
       .run = another_domains_stream},
      {.rule = "rdmap.responder.read.access",
       .variant = "another stream's window",
       .needs = Need::memory_windows,
       .run = another_streams_window},
      {.rule = "rdmap.responder.read.access",
       .variant = "TO wraps",
       .run = around_the_end_of_all,
       .possible_problems = "the TO is out of bounds as well, which has another code"},
      {.rule = "rdmap.responder.read.in-order", .variant = "four short READs", .run = four_short_ones},
      {.rule = "rdmap.responder.read.in-order", .variant = "long READ first", .run = a_long_one_first},
      {.rule = "rdmap.responder.read.beyond-depth", .variant = "one more than 2", .run = one_more_than_2},
      {.rule = "rdmap.responder.read.beyond-depth", .variant = "many more than 1", .run = many_more_than_1},
      {.rule = "rdmap.responder.read.beyond-depth", .variant = "many more than 2", .run = many_more_than_2},
      {.rule = "rdmap.responder.read.beyond-depth", .variant = "many more than 3", .run = many_more_than_3},
      {.rule = "rdmap.requester.read.within-depth", .variant = "1", .role = requester, .run = depth_1},
      {.rule = "rdmap.requester.read.within-depth", .variant = "2", .role = requester, .run = depth_2},
      {.rule = "rdmap.requester.read.within-depth", .variant = "3", .role = requester, .run = depth_3},
      {.rule = "rdmap.requester.read.within-depth", .variant = "5", .role = requester, .run = depth_5},
      {.rule = "rdmap.requester.read.within-depth",
       .variant = "the peer's",
       .role = requester,
       .run = the_other_ends_depth},
      {.rule = "rdmap.requester.read.within-depth",
       .variant = "3, as initiator",
       .role = requester,
       .run = depth_3_as_initiator},
      {.rule = "rdmap.responder.order.read-after-write", .variant = "one segment", .run = a_write_is_read_back},
      {.rule = "rdmap.responder.order.read-after-write",
       .variant = "two RDMA Writes",
       .run = the_last_write_is_read_back},
      {.rule = "rdmap.responder.order.read-after-write",
       .variant = "several segments",
       .run = a_long_write_is_read_back},
      {.rule = "rdmap.responder.order.write-after-read", .run = a_write_after_a_read},
      {.rule = "rdmap.requester.response.where-it-says",
       .variant = "memory without remote access",
       .role = requester,
       .run = to_memory_that_is_not_open},
      {.rule = "rdmap.requester.response.where-it-says",
       .variant = "unknown STag",
       .role = requester,
       .run = to_an_unknown_stag},
      {.rule = "rdmap.requester.response.where-it-says",
       .variant = "another protection domain",
       .role = requester,
       .run = to_another_domain},
      {.rule = "rdmap.requester.response.where-it-says",
       .variant = "another TO",
       .role = requester,
       .run = to_another_offset},
      {.rule = "rdmap.requester.response.where-it-says",
       .variant = "TO less by one",
       .role = requester,
       .run = one_byte_early},
      {.rule = "rdmap.requester.response.where-it-says",
       .variant = "another TO of the last segment",
       .role = requester,
       .run = to_another_offset_in_a_later_segment},
      {.rule = "rdmap.requester.response.where-it-says", .variant = "too short", .role = requester, .run = too_short},
      {.rule = "rdmap.requester.response.too-long", .variant = "by one byte", .role = requester, .run = by_one_byte},
      {.rule = "rdmap.requester.response.too-long", .variant = "by far", .role = requester, .run = by_far},
      {.rule = "rdmap.requester.response.too-long",
       .variant = "by far, not the last segment",
       .role = requester,
       .run = by_far_and_not_the_last},
      {.rule = "rdmap.requester.response.too-long",
       .variant = "a segment after it",
       .role = requester,
       .run = by_a_segment_after_it},
      {.rule = "rdmap.requester.response.too-long",
       .variant = "segments without last flag",
       .role = requester,
       .run = by_segments_without_an_end},
      {.rule = "rdmap.requester.response.too-long",
       .variant = "unsolicited",
       .role = requester,
       .run = where_nothing_was_asked_for},
      {.rule = "rdmap.requester.response.unsolicited",
       .variant = "no request",
       .role = requester,
       .run = without_a_request},
      {.rule = "rdmap.requester.response.unsolicited",
       .variant = "no request, no bytes",
       .role = requester,
       .run = of_nothing_without_a_request},
      {.rule = "rdmap.requester.response.unsolicited",
       .variant = "a second one",
       .role = requester,
       .run = a_second_response},
  };
  return cases;
}

}  // namespace rdmawire::conformance::iwarp::rdmap_reads_cases
