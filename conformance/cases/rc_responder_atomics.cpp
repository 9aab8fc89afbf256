/// Atomic operations: IBTA vol 1, 9.4.5.

#include "conformance/cases/files.hpp"

namespace rdmawire::conformance::rc_responder_atomics_cases {
namespace {

Operands word(const Connected& qp, std::uint64_t offset, std::uint64_t swap_or_add, std::uint64_t compare = 0) {
  Operands operands = qp.at(offset);
  operands.swap_or_add = swap_or_add;
  operands.compare = compare;
  return operands;
}

// Reads the word with a FetchAdd of 0, which is independent of the device's byte order.
void word_is(Bench& bench, Connected& qp, psn at, std::uint64_t value) {
  bench >> qp.fetch_add(at, word(qp, 0, 0));
  bench << atomic_acknowledge(at, value);
}

// The response contains the original value, and memory contains the sum.
void adds(Bench& bench) {
  Connected& qp = bench.rc();
  bench >> qp.fetch_add(psn(+0), word(qp, 0, 0x100000005));
  bench << atomic_acknowledge(psn(+0), 0).msn(1);
  bench >> qp.fetch_add(psn(+1), word(qp, 0, 7));
  bench << atomic_acknowledge(psn(+1), 0x100000005).msn(2);
  word_is(bench, qp, psn(+2), 0x10000000c);
}
void adds_and_wraps(Bench& bench) {
  Connected& qp = bench.rc();
  bench >> qp.fetch_add(psn(+0), word(qp, 0, ~std::uint64_t{0}));
  bench << atomic_acknowledge(psn(+0), 0);
  bench >> qp.fetch_add(psn(+1), word(qp, 0, 3));
  bench << atomic_acknowledge(psn(+1), ~std::uint64_t{0});
  word_is(bench, qp, psn(+2), 2);
}
void swaps_when_equal(Bench& bench) {
  Connected& qp = bench.rc();
  bench >> qp.compare_swap(psn(+0), word(qp, 0, 0x1122334455667788, 0));
  bench << atomic_acknowledge(psn(+0), 0).msn(1);
  word_is(bench, qp, psn(+1), 0x1122334455667788);
}
void swaps_only_when_equal(Bench& bench) {
  Connected& qp = bench.rc();
  bench >> qp.compare_swap(psn(+0), word(qp, 0, 0x1122334455667788, 1));
  bench << atomic_acknowledge(psn(+0), 0).msn(1);
  word_is(bench, qp, psn(+1), 0);
}
// A difference of one bit in the highest byte.
void compares_all_bytes(Bench& bench) {
  Connected& qp = bench.rc();
  bench >> qp.compare_swap(psn(+0), word(qp, 0, 5, std::uint64_t{1} << 63));
  bench << atomic_acknowledge(psn(+0), 0);
  word_is(bench, qp, psn(+1), 0);
}
void last_word_of_the_region(Bench& bench) {
  Connected& qp = bench.rc({.region_bytes = 4096});
  bench >> qp.fetch_add(psn(+0), word(qp, 4088, ~std::uint64_t{0}));
  bench << atomic_acknowledge(psn(+0), 0);
  qp.holds(4080, std::string(8, '\0').append(8, '\xff'));
}

// An address that is not a multiple of 8: NAK (invalid request), memory unchanged.
void at_offset(Bench& bench, std::uint64_t offset, bool swap) {
  Connected& qp = bench.rc();
  bench >> (swap ? qp.compare_swap(psn(+0), word(qp, offset, 5, 0)) : qp.fetch_add(psn(+0), word(qp, offset, 5)));
  qp.refuses(nak_invalid_request(psn(+0)));
  qp.holds(0, std::string(24, '\0'));
}
void at_1(Bench& bench) { at_offset(bench, 1, false); }
void at_4(Bench& bench) { at_offset(bench, 4, true); }
void at_7(Bench& bench) { at_offset(bench, 7, false); }

// The QP permits no atomics.
void none_allowed(Bench& bench) {
  Connected& qp = bench.rc({.reads_at_once = 0});
  bench >> qp.fetch_add(psn(+0), word(qp, 0, 5));
  qp.refuses(nak_invalid_request(psn(+0)));
  qp.holds(0, std::string(8, '\0'));
}

}  // namespace

std::span<const Case> all() {
  static constexpr Case list[] = {
      {.rule = "rc.responder.atomic.misaligned", .variant = "+1", .needs = Need::atomics, .run = at_1},
      {.rule = "rc.responder.atomic.misaligned", .variant = "+4, CmpSwap", .needs = Need::atomics, .run = at_4},
      {.rule = "rc.responder.atomic.misaligned", .variant = "+7", .needs = Need::atomics, .run = at_7},
      {.rule = "rc.responder.atomic.result", .variant = "FetchAdd", .needs = Need::atomics, .run = adds},
      {.rule = "rc.responder.atomic.result",
       .variant = "FetchAdd over 2^64",
       .needs = Need::atomics,
       .run = adds_and_wraps},
      {.rule = "rc.responder.atomic.result",
       .variant = "CmpSwap, equal",
       .needs = Need::atomics,
       .run = swaps_when_equal},
      {.rule = "rc.responder.atomic.result",
       .variant = "CmpSwap, not equal",
       .needs = Need::atomics,
       .run = swaps_only_when_equal},
      {.rule = "rc.responder.atomic.result",
       .variant = "CmpSwap, one bit",
       .needs = Need::atomics,
       .run = compares_all_bytes},
      {.rule = "rc.responder.atomic.result",
       .variant = "the region's last word",
       .needs = Need::atomics,
       .run = last_word_of_the_region},
      {.rule = "rc.responder.atomic.none-allowed", .needs = Need::atomics, .run = none_allowed},
  };
  return list;
}

}  // namespace rdmawire::conformance::rc_responder_atomics_cases
