/// Invalidation of STags: RFC 5040, 5.3 (Send with Invalidate), 4.8 (figure 9, its error), 8.1.1 item 6 (local
/// invalidation).

#include <fmt/format.h>

#include "conformance/cases/fast_region.hpp"
#include "conformance/cases/files.hpp"
#include "conformance/cases/iwarp/bench.hpp"

namespace rdmawire::conformance::iwarp::rdmap_invalidate_cases {
namespace {

const peer::Names bindable = {"local_write", "remote_write", "remote_read", "mw_bind"};
constexpr std::uint64_t some_wr_id = 0x100;

/// An STag of the stream that verbs can invalidate, and a TO in its range.
struct Revocable {
  std::uint32_t stag = 0;
  std::uint64_t to = 0;
};
using Steps = void (*)(IwarpBench&, Connected&, const Revocable&);

void with_a_window(IwarpBench& bench, Steps steps) {
  Connected& qp = bench.connect({.receives = 2, .region_access = bindable});
  qp.opens();
  const BoundWindow bound = bench.bind_window(qp, 0, 64, {"remote_write", "remote_read"});
  steps(bench, qp, {bound.rkey, qp.to()});
}
void with_a_region(IwarpBench& bench, Steps steps) {
  Connected& qp = bench.connect({.receives = 2});
  const FastRegion region(bench);
  qp.opens();
  region.registers(qp, some_wr_id, 1);
  steps(bench, qp, {region.key(1), region.address});
}

/// Checks that the STag is valid: data written through it can be read.
void is_good(Connected& qp, const Revocable& at, std::uint32_t read_msn) {
  qp >> write(at.stag, at.to, pattern_bytes(16)) >>
      read_request(read_msn, {.size = 16, .source_stag = at.stag, .source_to = at.to});
  qp << an(RdmapOperation::read_response).carrying(pattern_bytes(16));
}

// 5.3: the STag is invalid when the Send is delivered, and the application is notified of it.
void invalidates(IwarpBench& bench, Connected& qp, const Revocable& at, bool solicited) {
  is_good(qp, at, 1);
  qp >> (solicited ? send_solicited_invalidate(1, at.stag, pattern_bytes(8))
                   : send_invalidate(1, at.stag, pattern_bytes(8)));
  const peer::Completion completion = qp.completes(0);
  bench.require(completion.invalidated_rkey == at.stag, fmt::format("the application notified of STag {:#x}", at.stag),
                completion.invalidated_rkey ? fmt::format("{:#x}", *completion.invalidated_rkey) : "of none");
  qp.received(0, pattern_bytes(8));
}
void then_no_write(IwarpBench& bench, Connected& qp, const Revocable& at) {
  invalidates(bench, qp, at, false);
  qp >> write(at.stag, at.to, pattern_bytes(16, 0x80));
  qp.refuses(a_terminate(1, 1, 0x00));
}
void then_no_write_solicited(IwarpBench& bench, Connected& qp, const Revocable& at) {
  invalidates(bench, qp, at, true);
  qp >> write(at.stag, at.to, pattern_bytes(16, 0x80));
  qp.refuses(a_terminate(1, 1, 0x00));
}
void then_no_read(IwarpBench& bench, Connected& qp, const Revocable& at) {
  invalidates(bench, qp, at, false);
  qp >> read_request(2, {.size = 16, .source_stag = at.stag, .source_to = at.to});
  qp.refuses(a_terminate(0, 1, 0x00));
}
// Segments before the Send are processed before the invalidation.
void a_write_before_it(IwarpBench& bench, Connected& qp, const Revocable& at) {
  qp.together({write(at.stag, at.to, pattern_bytes(16)), send_invalidate(1, at.stag, pattern_bytes(8))});
  const peer::Completion completion = qp.completes(0);
  bench.require(completion.invalidated_rkey == at.stag, "the application notified of the STag",
                "another STag, or none");
  qp << silence();
}
void no_write_to_a_window(IwarpBench& bench) { with_a_window(bench, then_no_write); }
void no_read_of_a_window(IwarpBench& bench) { with_a_window(bench, then_no_read); }
void no_write_to_a_window_solicited(IwarpBench& bench) { with_a_window(bench, then_no_write_solicited); }
void no_write_to_a_region(IwarpBench& bench) { with_a_region(bench, then_no_write); }
void no_read_of_a_region(IwarpBench& bench) { with_a_region(bench, then_no_read); }
void no_write_to_a_region_solicited(IwarpBench& bench) { with_a_region(bench, then_no_write_solicited); }
void a_write_to_a_region_before_it(IwarpBench& bench) { with_a_region(bench, a_write_before_it); }

/// Layer 0 and code 9 of a remote protection error or a remote operation error: figure 9 lists it for both.
Expectation cannot_be_invalidated() {
  return {"Terminate, layer 0, type 1 or 2, code 0x09", [](const Seen& seen) {
            const Match protection = a_terminate(0, 1, 0x09).judge(seen);
            return protection == Match::wrong_code ? a_terminate(0, 2, 0x09).judge(seen) : protection;
          }};
}
void refused(Connected& qp, const Stimulus& bad) {
  qp >> bad;
  qp.refuses(cannot_be_invalidated());
  qp.fails_or_is_flushed(0);
}
void an_unknown_stag(IwarpBench& bench) { refused(bench.connect({.receives = 1}), send_invalidate(1, unknown_stag)); }
void an_unknown_stag_solicited(IwarpBench& bench) {
  refused(bench.connect({.receives = 1}), send_solicited_invalidate(1, unknown_stag));
}
void stag_0(IwarpBench& bench) { refused(bench.connect({.receives = 1}), send_invalidate(1, 0)); }
// The STag stays valid: the other stream continues to use it.
void another_domains_region(IwarpBench& bench) {
  Connected& other = bench.connect({.domain = 1});
  refused(bench.connect({.receives = 1}), send_invalidate(1, other.stag()));
  other >> write(other.stag(), other.to(), pattern_bytes(16));
  other >> read_request(1, {.size = 16, .source_stag = other.stag(), .source_to = other.to()});
  other << an(RdmapOperation::read_response).carrying(pattern_bytes(16));
}
// An STag consists of index and key: another key is another STag, and the original one stays valid.
void another_key_of_a_region(IwarpBench& bench) {
  Connected& other = bench.connect();
  Connected& qp = bench.connect({.receives = 1});
  qp >> send_invalidate(1, other.stag() ^ 1);
  bench.pass(bench.patience().silence);
  is_good(other, {other.stag(), other.to()}, 1);
  qp.refuses(cannot_be_invalidated());
  qp.fails_or_is_flushed(0);
}
void another_domains_fast_region(IwarpBench& bench) {
  Connected& other = bench.connect({.domain = 1});
  const FastRegion region(bench, 1);
  other.opens();
  region.registers(other, some_wr_id, 1);
  refused(bench.connect({.receives = 1}), send_invalidate(1, region.key(1)));
  is_good(other, {region.key(1), region.address}, 1);
}
void another_streams_window(IwarpBench& bench) {
  Connected& other = bench.connect({.region_access = bindable});
  other.opens();
  const BoundWindow bound = bench.bind_window(other, 0, 64, {"remote_write", "remote_read"});
  refused(bench.connect({.receives = 1}), send_invalidate(1, bound.rkey));
  is_good(other, {bound.rkey, other.to()}, 1);
}
void invalid_already(IwarpBench& bench) {
  Connected& qp = bench.connect({.receives = 2});
  const FastRegion region(bench);
  qp.opens();
  region.registers(qp, some_wr_id, 1);
  qp >> send_invalidate(1, region.key(1));
  qp.completes(0);
  qp >> send_invalidate(2, region.key(1));
  qp.refuses(cannot_be_invalidated());
  qp.fails_or_is_flushed(1);
}

// 8.1.1, item 6: after the completion of the local invalidate, the STag is unusable.
void invalidate_locally(Connected& qp, const Revocable& at) {
  is_good(qp, at, 1);
  qp.post({.opcode = "local_inv", .wr_id = some_wr_id + 1, .invalidate_rkey = at.stag});
  qp.completes(some_wr_id + 1);
}
void local_then_no_write(IwarpBench& bench, Connected& qp, const Revocable& at) {
  static_cast<void>(bench);
  invalidate_locally(qp, at);
  qp >> write(at.stag, at.to, pattern_bytes(16, 0x80));
  qp.refuses(a_terminate(1, 1, 0x00));
}
void local_then_no_read(IwarpBench& bench, Connected& qp, const Revocable& at) {
  static_cast<void>(bench);
  invalidate_locally(qp, at);
  qp >> read_request(2, {.size = 16, .source_stag = at.stag, .source_to = at.to});
  qp.refuses(a_terminate(0, 1, 0x00));
}
void local_write_to_a_window(IwarpBench& bench) { with_a_window(bench, local_then_no_write); }
void local_read_of_a_window(IwarpBench& bench) { with_a_window(bench, local_then_no_read); }
void local_write_to_a_region(IwarpBench& bench) { with_a_region(bench, local_then_no_write); }
void local_read_of_a_region(IwarpBench& bench) { with_a_region(bench, local_then_no_read); }
/// Deregistration, the invalidation that all verbs support.
void deregistered(IwarpBench& bench, bool writes) {
  Connected& qp = bench.connect();
  peer::Region region = bench.region(4096, {"local_write", "remote_write", "remote_read"});
  const Revocable at{region.rkey(), region.addr()};
  is_good(qp, at, 1);
  bench.take(region.release(), "the region deregistered");
  if (writes) {
    qp >> write(at.stag, at.to, pattern_bytes(16, 0x80));
    qp.refuses(a_terminate(1, 1, 0x00));
  } else {
    qp >> read_request(2, {.size = 16, .source_stag = at.stag, .source_to = at.to});
    qp.refuses(a_terminate(0, 1, 0x00));
  }
}
void write_to_what_is_deregistered(IwarpBench& bench) { deregistered(bench, true); }
void read_of_what_is_deregistered(IwarpBench& bench) { deregistered(bench, false); }

}  // namespace

std::span<const Case> all() {
  constexpr Need windows = Need::memory_windows;
  static constexpr Case cases[] = {
      {.rule = "rdmap.receiver.invalidate.associated",
       .variant = "window, then an RDMA Write",
       .needs = windows,
       .run = no_write_to_a_window},
      {.rule = "rdmap.receiver.invalidate.associated",
       .variant = "window, then an RDMA Read",
       .needs = windows,
       .run = no_read_of_a_window},
      {.rule = "rdmap.receiver.invalidate.associated",
       .variant = "window, with Solicited Event",
       .needs = windows,
       .run = no_write_to_a_window_solicited},
      {.rule = "rdmap.receiver.invalidate.associated",
       .variant = "region, then an RDMA Write",
       .run = no_write_to_a_region},
      {.rule = "rdmap.receiver.invalidate.associated",
       .variant = "region, then an RDMA Read",
       .run = no_read_of_a_region},
      {.rule = "rdmap.receiver.invalidate.associated",
       .variant = "region, with Solicited Event",
       .run = no_write_to_a_region_solicited},
      {.rule = "rdmap.receiver.invalidate.associated",
       .variant = "region, an RDMA Write before it",
       .run = a_write_to_a_region_before_it},
      {.rule = "rdmap.receiver.invalidate.refused", .variant = "unknown STag", .run = an_unknown_stag},
      {.rule = "rdmap.receiver.invalidate.refused",
       .variant = "unknown STag, with Solicited Event",
       .run = an_unknown_stag_solicited},
      {.rule = "rdmap.receiver.invalidate.refused", .variant = "STag 0", .run = stag_0},
      {.rule = "rdmap.receiver.invalidate.refused",
       .variant = "region of another protection domain",
       .run = another_domains_region},
      {.rule = "rdmap.receiver.invalidate.refused",
       .variant = "another key of a region",
       .run = another_key_of_a_region},
      {.rule = "rdmap.receiver.invalidate.refused",
       .variant = "fast region of another protection domain",
       .run = another_domains_fast_region},
      {.rule = "rdmap.receiver.invalidate.refused",
       .variant = "another stream's window",
       .needs = windows,
       .run = another_streams_window},
      {.rule = "rdmap.receiver.invalidate.refused", .variant = "invalid already", .run = invalid_already},
      {.rule = "rdmap.responder.access.invalidated",
       .variant = "window, RDMA Write",
       .needs = windows,
       .run = local_write_to_a_window},
      {.rule = "rdmap.responder.access.invalidated",
       .variant = "window, RDMA Read",
       .needs = windows,
       .run = local_read_of_a_window},
      {.rule = "rdmap.responder.access.invalidated", .variant = "region, RDMA Write", .run = local_write_to_a_region},
      {.rule = "rdmap.responder.access.invalidated", .variant = "region, RDMA Read", .run = local_read_of_a_region},
      {.rule = "rdmap.responder.access.invalidated",
       .variant = "deregistered, RDMA Write",
       .run = write_to_what_is_deregistered},
      {.rule = "rdmap.responder.access.invalidated",
       .variant = "deregistered, RDMA Read",
       .run = read_of_what_is_deregistered},
  };
  return cases;
}

}  // namespace rdmawire::conformance::iwarp::rdmap_invalidate_cases
