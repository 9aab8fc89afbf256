/// FLUSH and ATOMIC WRITE: IBTA vol 1, annex A19 (A19.4.1, A19.4.2, oA19-1 to oA19-28).

#include "conformance/cases/files.hpp"

namespace rdmawire::conformance::rc_responder_extensions_cases {
namespace {

constexpr std::uint8_t global_visibility = 1, persistence = 2;
constexpr std::uint8_t whole_region = 1;

const ConnectOptions visible{.region_access = {"local_write", "remote_write", "remote_read", "flush_global"},
                             .access = {"remote_write", "remote_read", "flush_global"}};

Stimulus flush(const Connected& qp, psn at, Operands operands) {
  return qp.request(Operation::flush, Position::only, at, operands);
}
Stimulus atomic_write(const Connected& qp, psn at, std::uint64_t offset, const std::string& payload) {
  return qp.request(Operation::atomic_write, Position::only, at,
                    qp.at(offset, static_cast<std::uint32_t>(payload.size()), payload));
}
Expectation empty_response(psn at) { return read_response(Position::only, at).carrying(""); }

// 8 bytes are written. The response is a READ response Only without payload, and the MSN counts it. oA19-28
void written(Bench& bench) {
  Connected& qp = bench.rc();
  bench >> atomic_write(qp, psn(+0), 8, pattern_bytes(8));
  bench << empty_response(psn(+0)).msn(1);
  qp.holds(0, std::string(8, '\0') + pattern_bytes(8) + std::string(8, '\0'));
}
void written_to_the_last_word(Bench& bench) {
  Connected& qp = bench.rc({.region_bytes = 4096});
  bench >> atomic_write(qp, psn(+0), 4088, pattern_bytes(8));
  bench << empty_response(psn(+0)).msn(1);
  qp.holds(4088, pattern_bytes(8));
}

// Any other length is rejected, and memory is unchanged. oA19-28
void of_length(Bench& bench, std::size_t length) {
  Connected& qp = bench.rc();
  bench >> atomic_write(qp, psn(+0), 0, pattern_bytes(length));
  qp.refuses(nak_invalid_request(psn(+0)));
  qp.holds(0, std::string(24, '\0'));
}
void of_0(Bench& bench) { of_length(bench, 0); }
void of_4(Bench& bench) { of_length(bench, 4); }
void of_7(Bench& bench) { of_length(bench, 7); }
void of_9(Bench& bench) { of_length(bench, 9); }
void of_16(Bench& bench) { of_length(bench, 16); }
// RETH and payload have different lengths.
void announcing_8_bringing_none(Bench& bench) {
  Connected& qp = bench.rc();
  bench >> qp.request(Operation::atomic_write, Position::only, psn(+0), qp.at(0, 8));
  qp.refuses(nak_invalid_request(psn(+0)));
  qp.holds(0, std::string(24, '\0'));
}

void at_offset(Bench& bench, std::uint64_t offset) {
  Connected& qp = bench.rc();
  bench >> atomic_write(qp, psn(+0), offset, pattern_bytes(8));
  qp.refuses(nak_invalid_request(psn(+0)));
  qp.holds(0, std::string(24, '\0'));
}
void at_1(Bench& bench) { at_offset(bench, 1); }
void at_4(Bench& bench) { at_offset(bench, 4); }

// A duplicate is answered, and changed memory stays unchanged.
void atomic_write_repeated(Bench& bench) {
  Connected& qp = bench.rc();
  bench >> atomic_write(qp, psn(+0), 0, pattern_bytes(8));
  bench << empty_response(psn(+0)).msn(1);
  qp.fill(0, pattern_bytes(8, 0x80));
  bench >> atomic_write(qp, psn(+0), 0, pattern_bytes(8));
  bench << empty_response(psn(+0)).msn(1);
  qp.holds(0, pattern_bytes(8, 0x80));
}

// The response to a FLUSH is a READ response Only without payload. oA19-5, oA19-6
void flushed(Bench& bench) {
  Connected& qp = bench.rc(visible);
  bench >> qp.write_only(psn(+0), qp.at(0, 0, pattern_bytes(64))) >> flush(qp, psn(+1), qp.at(0, 64));
  bench << ack(psn(+0)).msn(1) << empty_response(psn(+1)).msn(2);
  qp.holds(0, pattern_bytes(64));
}

// A placement that the region does not grant: remote access error. One that the QP does not grant: invalid request.
// oA19-13
void region_grants_no_visibility(Bench& bench) {
  ConnectOptions options = visible;
  options.region_access = {"local_write", "remote_write"};
  Connected& qp = bench.rc(options);
  bench >> flush(qp, psn(+0), qp.at(0, 64));
  qp.refuses(nak_remote_access(psn(+0)));
}
void region_grants_no_persistence(Bench& bench) {
  ConnectOptions options = visible;
  options.access.emplace_back("flush_persistent");
  Connected& qp = bench.rc(options);
  Operands operands = qp.at(0, 64);
  operands.placement = persistence;
  bench >> flush(qp, psn(+0), operands);
  qp.refuses(nak_remote_access(psn(+0)));
}
void queue_pair_grants_no_visibility(Bench& bench) {
  ConnectOptions options = visible;
  options.access = {"remote_write", "remote_read"};
  Connected& qp = bench.rc(options);
  Operands operands = qp.at(0, 64);
  operands.placement = global_visibility;
  bench >> flush(qp, psn(+0), operands);
  qp.refuses(nak_invalid_request(psn(+0)));
}

// For a whole region, the region is validated. Address and length are ignored. A19.4.1.2
void whole_region_any_range(Bench& bench) {
  Connected& qp = bench.rc(visible);
  Operands operands = qp.at(0, 64);
  operands.va += 1U << 30;
  operands.length = 1U << 30;
  operands.selectivity = whole_region;
  bench >> flush(qp, psn(+0), operands);
  bench << empty_response(psn(+0)).msn(1);
}
void whole_region_unused_key(Bench& bench) {
  Connected& qp = bench.rc(visible);
  Operands operands = qp.at(0, 64);
  operands.rkey = 0xdeadbe00;
  operands.selectivity = whole_region;
  bench >> flush(qp, psn(+0), operands);
  qp.refuses(nak_remote_access(psn(+0)));
}
void range_beyond_the_end(Bench& bench) {
  Connected& qp = bench.rc(visible);
  bench >> flush(qp, psn(+0), qp.at(qp.options.region_bytes - 64, 65));
  qp.refuses(nak_remote_access(psn(+0)));
}

// A duplicate FLUSH is acknowledged. oA19-14, oA19-15
void flush_repeated(Bench& bench) {
  Connected& qp = bench.rc(visible);
  for (int again = 0; again < 2; ++again) {
    bench >> flush(qp, psn(+0), qp.at(0, 64));
    bench << empty_response(psn(+0)).msn(1);
  }
}

// A FLUSH with a valid ICRC, which covers FETH and RETH once, is accepted. CA17-22, A19.4.1
void right_icrc_of_a_flush(Bench& bench) {
  Connected& qp = bench.rc(visible);
  bench >> flush(qp, psn(+0), qp.at(0, 8));
  bench << empty_response(psn(+0)).msn(1);
}

}  // namespace

std::span<const Case> all() {
  static constexpr Case list[] = {
      {.rule = "rc.responder.atomic-write.executed", .needs = Need::atomic_write, .run = written},
      {.rule = "rc.responder.atomic-write.executed",
       .variant = "the region's last word",
       .needs = Need::atomic_write,
       .run = written_to_the_last_word},
      {.rule = "rc.responder.atomic-write.length", .variant = "0", .needs = Need::atomic_write, .run = of_0},
      {.rule = "rc.responder.atomic-write.length", .variant = "4", .needs = Need::atomic_write, .run = of_4},
      {.rule = "rc.responder.atomic-write.length", .variant = "7", .needs = Need::atomic_write, .run = of_7},
      {.rule = "rc.responder.atomic-write.length", .variant = "9", .needs = Need::atomic_write, .run = of_9},
      {.rule = "rc.responder.atomic-write.length", .variant = "16", .needs = Need::atomic_write, .run = of_16},
      {.rule = "rc.responder.atomic-write.length",
       .variant = "8 in the RETH, no payload",
       .needs = Need::atomic_write,
       .run = announcing_8_bringing_none},
      {.rule = "rc.responder.atomic-write.misaligned", .variant = "+1", .needs = Need::atomic_write, .run = at_1},
      {.rule = "rc.responder.atomic-write.misaligned", .variant = "+4", .needs = Need::atomic_write, .run = at_4},
      {.rule = "rc.responder.atomic-write.duplicate", .needs = Need::atomic_write, .run = atomic_write_repeated},
      {.rule = "rc.responder.flush.answered", .needs = Need::flush, .run = flushed},
      {.rule = "rc.responder.flush.placement-not-granted",
       .variant = "region, visibility",
       .needs = Need::flush,
       .run = region_grants_no_visibility},
      {.rule = "rc.responder.flush.placement-not-granted",
       .variant = "region, persistence",
       .needs = Need::flush,
       .run = region_grants_no_persistence},
      {.rule = "rc.responder.flush.placement-not-granted",
       .variant = "QP",
       .needs = Need::flush,
       .run = queue_pair_grants_no_visibility},
      {.rule = "rc.responder.flush.whole-region",
       .variant = "any range",
       .needs = Need::flush,
       .run = whole_region_any_range},
      {.rule = "rc.responder.flush.whole-region",
       .variant = "unused key",
       .needs = Need::flush,
       .run = whole_region_unused_key},
      {.rule = "rc.responder.flush.whole-region",
       .variant = "a range beyond the end",
       .needs = Need::flush,
       .run = range_beyond_the_end},
      {.rule = "rc.responder.flush.duplicate", .needs = Need::flush, .run = flush_repeated},
      {.rule = "rc.endpoint.icrc.flush", .needs = Need::flush, .run = right_icrc_of_a_flush},
  };
  return list;
}

}  // namespace rdmawire::conformance::rc_responder_extensions_cases
