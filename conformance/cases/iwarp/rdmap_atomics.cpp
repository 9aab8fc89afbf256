/// Atomic operations: RFC 7306, 5 (operations), 8 (errors).

#include <fmt/format.h>

#include <algorithm>

#include "conformance/cases/files.hpp"
#include "conformance/cases/iwarp/bench.hpp"

namespace rdmawire::conformance::iwarp::rdmap_atomics_cases {
namespace {

constexpr std::uint8_t fetch_add = 0, compare_swap = 2;
constexpr std::uint64_t all = ~std::uint64_t{0};

/// An atomic operation on the first word of the region.
Atomic on(const Connected& qp, std::uint8_t operation, std::uint64_t data, std::uint64_t mask = 0,
          std::uint64_t compare = 0, std::uint64_t compare_mask = all) {
  return {.operation = operation,
          .stag = qp.stag(),
          .to = qp.to(),
          .data = data,
          .mask = mask,
          .compare = compare,
          .compare_mask = compare_mask};
}

/// Consecutive operations on the first word. Each response contains the preceding value.
class Word {
 public:
  explicit Word(Connected& qp) : qp_(qp) {}

  [[nodiscard]] Connected& qp() { return qp_; }
  Word& does(std::uint64_t original, const Atomic& what) {
    ++msn_;
    qp_ >> atomic_request(msn_, what);
    qp_ << an_atomic_response(msn_, what.id, original);
    return *this;
  }
  /// Reads the word with a FetchAdd of 0, which is independent of the device's byte order.
  void is(std::uint64_t value) { does(value, on(qp_, fetch_add, 0)); }

 private:
  Connected& qp_;
  std::uint32_t msn_ = 0;
};

// ---- EXT-006, EXT-007, EXT-008: messages

void device_adds(Connected& qp, std::uint64_t wr_id) {
  qp.post({.opcode = "fetch_add",
           .wr_id = wr_id,
           .sges = {qp.piece(8 * wr_id, 8)},
           .remote_addr = tester_memory,
           .rkey = tester_stag,
           .add = 5});
}
void device_swaps(Connected& qp, std::uint64_t wr_id) {
  qp.post({.opcode = "compare_swap",
           .wr_id = wr_id,
           .sges = {qp.piece(8 * wr_id, 8)},
           .remote_addr = tester_memory,
           .rkey = tester_stag,
           .compare = 3,
           .swap = 4});
}
Expectation a_request_for(std::uint32_t msn, std::uint8_t operation) {
  return an(RdmapOperation::atomic_request, msn)
      .where(fmt::format("untagged, on QN 1, of 52 bytes, reserved bits 0, operation {}", operation),
             [operation](const Seen& seen) {
               return seen.get<Ddp, "tagged">() == 0U && seen.get<Ddp, "last">() == 1U &&
                      seen.get<DdpUntagged, "qn">() == 1U && seen.ulpdu_bytes() == 18 + 52 &&
                      seen.get<RdmapAtomicRequest, "reserved">() == 0U &&
                      seen.get<RdmapAtomicRequest, "operation">() == operation &&
                      seen.get<RdmapAtomicRequest, "stag">() == tester_stag &&
                      seen.get<RdmapAtomicRequest, "to">() == tester_memory;
             });
}
void requests_have_their_format(IwarpBench& bench) {
  Connected& qp = bench.connect();
  qp.opens();
  device_adds(qp, 1);
  const Seen first = qp.wait(a_request_for(1, fetch_add));
  bench.require(first.get<RdmapAtomicRequest, "add_swap_data">() == 5U, "Add Data 5", first.text());
  qp >> atomic_response(1, static_cast<std::uint32_t>(*first.get<RdmapAtomicRequest, "request_id">()), 40);
  qp.completes(1);
  device_swaps(qp, 2);
  const Seen second = qp.wait(a_request_for(2, compare_swap));
  bench.require(second.get<RdmapAtomicRequest, "compare_data">() == 3U &&
                    second.get<RdmapAtomicRequest, "add_swap_data">() == 4U &&
                    second.get<RdmapAtomicRequest, "compare_mask">() == all &&
                    second.get<RdmapAtomicRequest, "add_swap_mask">() == all,
                "Compare Data 3, Swap Data 4, masks of ones", second.text());
  qp >> atomic_response(2, static_cast<std::uint32_t>(*second.get<RdmapAtomicRequest, "request_id">()), 3);
  qp.completes(2);
}
void responses_have_their_format(IwarpBench& bench) {
  Connected& qp = bench.connect();
  for (std::uint32_t msn = 1; msn <= 3; ++msn) {
    qp >> atomic_request(msn, on(qp, fetch_add, 1));
    qp << an_atomic_response(msn, 0x77, msn - 1)
              .where("untagged, on QN 3, the last segment, of 12 bytes", [](const Seen& seen) {
                return seen.get<Ddp, "tagged">() == 0U && seen.get<Ddp, "last">() == 1U &&
                       seen.get<DdpUntagged, "qn">() == 3U && seen.get<DdpUntagged, "mo">() == 0U &&
                       seen.ulpdu_bytes() == 18 + 12;
              });
  }
}
void identifiers_come_back(IwarpBench& bench) {
  Connected& qp = bench.connect();
  std::uint32_t msn = 0;
  for (const std::uint32_t id : {0x0U, 0x1U, 0xffffffffU, 0x12345678U}) {
    Atomic atomic = on(qp, fetch_add, 0);
    atomic.id = id;
    qp >> atomic_request(++msn, atomic);
    qp << an_atomic_response(msn, id, 0);
  }
}

// ---- EXT-009 to EXT-011: results

void adds_64_bits(IwarpBench& bench) {
  Word word(bench.connect());
  Connected& qp = word.qp();
  word.does(0, on(qp, fetch_add, 0x00000000ffffffff))
      .does(0x00000000ffffffff, on(qp, fetch_add, 1))
      .does(0x0000000100000000, on(qp, fetch_add, all))
      .does(0x00000000ffffffff, on(qp, fetch_add, 0xffffffff00000002));
  word.is(1);
}
// A mask bit ends a field: the carry out of the field is dropped.
void adds_in_fields(IwarpBench& bench) {
  Word word(bench.connect());
  Connected& qp = word.qp();
  constexpr std::uint64_t two_halves = 0x8000000080000000, bytes_each = 0x8080808080808080;
  word.does(0, on(qp, fetch_add, 0x00000001ffffffff, two_halves))
      .does(0x00000001ffffffff, on(qp, fetch_add, 0x0000000000000001, two_halves))
      .does(0x0000000100000000, on(qp, fetch_add, 0xffffffff00000000, two_halves))
      .does(0x0000000000000000, on(qp, fetch_add, 0xffffffffffffffff, bytes_each))
      .does(0xffffffffffffffff, on(qp, fetch_add, 0x0102030405060708, bytes_each));
  word.is(0x0001020304050607);
}
void adds_single_bits(IwarpBench& bench) {
  Word word(bench.connect());
  Connected& qp = word.qp();
  // Each bit is a field: addition without carries.
  word.does(0, on(qp, fetch_add, 0xff00ff00ff00ff00, all))
      .does(0xff00ff00ff00ff00, on(qp, fetch_add, 0x0ff00ff00ff00ff0, all));
  word.is(0xf0f0f0f0f0f0f0f0);
}
void swaps_when_equal(IwarpBench& bench) {
  Word word(bench.connect());
  Connected& qp = word.qp();
  word.does(0, on(qp, compare_swap, 0x1122334455667788, all, 0));
  word.is(0x1122334455667788);
}
void swaps_only_when_equal(IwarpBench& bench) {
  Word word(bench.connect());
  Connected& qp = word.qp();
  word.does(0, on(qp, compare_swap, 0x1122334455667788, all, 1));
  word.is(0);
}
void compares_under_its_mask(IwarpBench& bench) {
  Word word(bench.connect());
  Connected& qp = word.qp();
  word.does(0, on(qp, fetch_add, 0x1234567800000005))
      .does(0x1234567800000005, on(qp, compare_swap, 7, 0xff, 5, 0xff))
      .does(0x1234567800000007, on(qp, compare_swap, 9, 0xff, 5, 0xff));
  word.is(0x1234567800000007);
}
void swaps_under_its_mask(IwarpBench& bench) {
  Word word(bench.connect());
  Connected& qp = word.qp();
  word.does(0, on(qp, fetch_add, 0x1111111111111111))
      .does(0x1111111111111111, on(qp, compare_swap, 0xaaaaaaaaaaaaaaaa, 0x00ff00ff00ff00ff, 0x1111111111111111));
  word.is(0x11aa11aa11aa11aa);
}

// ---- EXT-012, EXT-013, EXT-014: errors

void unchanged(Connected& qp, const std::string& expected) { qp.holds(0, expected); }

void refuses_operation(IwarpBench& bench, std::uint8_t operation) {
  Connected& qp = bench.connect();
  qp.fill(0, pattern_bytes(16, 0x40));
  qp >> atomic_request(1, on(qp, operation, 1));
  qp << any_terminate() << stream_closed();
  unchanged(qp, pattern_bytes(16, 0x40));
}
template <std::uint8_t Operation>
void unknown_operation(IwarpBench& bench) {
  refuses_operation(bench, Operation);
}
void refuses_offset(IwarpBench& bench, std::uint64_t offset, std::uint8_t operation) {
  Connected& qp = bench.connect();
  qp.fill(0, pattern_bytes(32, 0x40));
  Atomic atomic = on(qp, operation, 1, operation == compare_swap ? all : 0, 0, 0);
  atomic.to += offset;
  qp >> atomic_request(1, atomic);
  qp << a_terminate(0, 2, 0x07) << stream_closed();
  unchanged(qp, pattern_bytes(32, 0x40));
}
template <std::uint64_t Offset, std::uint8_t Operation>
void misaligned(IwarpBench& bench) {
  refuses_offset(bench, Offset, Operation);
}

Expectation refused(std::uint8_t code) {
  return a_terminate(0, 1, code).where("with zeros or nothing as Read Request Header", [](const Seen& seen) {
    if (seen.get<Terminate, "rdma_header_included">() == 0U) return true;
    // 28 zero bytes are equivalent to an absent header. RFC 7306, 8.1.
    constexpr std::size_t header = 28;
    const std::size_t end = 2 + seen.ulpdu_bytes();
    return end >= header && std::all_of(seen.bytes.begin() + static_cast<std::ptrdiff_t>(end - header),
                                        seen.bytes.begin() + static_cast<std::ptrdiff_t>(end),
                                        [](std::uint8_t byte) { return byte == 0; });
  });
}
void unknown_stag(IwarpBench& bench) {
  Connected& qp = bench.connect();
  Atomic atomic = on(qp, fetch_add, 1);
  atomic.stag ^= 0x40000;
  qp >> atomic_request(1, atomic);
  qp << refused(0x00) << stream_closed();
}
void out_of_bounds(IwarpBench& bench) {
  Connected& qp = bench.connect();
  Atomic atomic = on(qp, fetch_add, 1);
  atomic.to += qp.options.region_bytes;
  qp >> atomic_request(1, atomic);
  qp << refused(0x01) << stream_closed();
}
void without_the_right(IwarpBench& bench) {
  Connected& qp = bench.connect({.region_access = {"local_write", "remote_write", "remote_read"}});
  qp.fill(0, pattern_bytes(16, 0x40));
  qp >> atomic_request(1, on(qp, fetch_add, 1));
  qp << refused(0x02) << stream_closed();
  unchanged(qp, pattern_bytes(16, 0x40));
}

// ---- EXT-015, EXT-016: depth

void own_depth(IwarpBench& bench) {
  Connected& qp = bench.connect({.enhanced = Enhanced{.ird = 2, .ord = 2}, .reads_at_once = 2, .own_reads = 2});
  qp.opens();
  device_adds(qp, 1);
  qp.device_reads(2, 8, 64);
  device_adds(qp, 3);
  qp.device_reads(4, 8, 128);
  std::vector<Seen> asked;
  asked.push_back(qp.wait(an(RdmapOperation::atomic_request, 1)));
  asked.push_back(qp.wait(an(RdmapOperation::read_request, 2)));
  qp << silence();
  qp >> atomic_response(1, static_cast<std::uint32_t>(*asked[0].get<RdmapAtomicRequest, "request_id">()), 1);
  const Seen third = qp.wait(an(RdmapOperation::atomic_request, 3));
  qp << silence();
  qp >> read_response(static_cast<std::uint32_t>(*asked[1].get<RdmapReadRequest, "sink_stag">()),
                      *asked[1].get<RdmapReadRequest, "sink_to">(), pattern_bytes(8));
  qp << an(RdmapOperation::read_request, 4);
  qp.completes(1);
  qp.completes(2);
}
void responses_in_order(IwarpBench& bench) {
  Connected& qp = bench.connect();
  ByteVector together;
  const auto add = [&](const Stimulus& one) {
    const ByteVector fpdu = qp.fpdu(one);
    together.insert(together.end(), fpdu.begin(), fpdu.end());
  };
  add(atomic_request(1, on(qp, fetch_add, 1)));
  add(read_request(2, {.size = 4000, .source_stag = qp.stag(), .source_to = qp.to(16)}));
  add(atomic_request(3, on(qp, fetch_add, 1)));
  add(read_request(4, {.size = 8, .source_stag = qp.stag(), .source_to = qp.to(16), .sink_to = 0x9000}));
  qp.say(together, "an atomic, a Read, an atomic and a Read at once");
  qp << an_atomic_response(1, 0x77, 0);
  std::size_t bytes_read = 0;
  for (const Seen& part : qp.message(RdmapOperation::read_response)) bytes_read += part.payload().size();
  bench.require(bytes_read == 4000, "a response of 4000 bytes", fmt::format("{} bytes", bytes_read));
  qp << an_atomic_response(2, 0x77, 1);
  qp << a_read_response(0x5157, 0x9000);
}
void beyond_the_depth(IwarpBench& bench) {
  constexpr std::uint16_t depth = 2;
  constexpr std::uint32_t asked = 64;
  Connected& qp =
      bench.connect({.enhanced = Enhanced{.ird = depth, .ord = depth}, .reads_at_once = depth, .own_reads = depth});
  ByteVector together;
  // The requests arrive before the first response is possible, because a long Read precedes them.
  const auto add = [&](const Stimulus& one) {
    const ByteVector fpdu = qp.fpdu(one);
    together.insert(together.end(), fpdu.begin(), fpdu.end());
  };
  add(read_request(1, {.size = 8192, .source_stag = qp.stag(), .source_to = qp.to()}));
  for (std::uint32_t msn = 2; msn <= asked; ++msn) add(atomic_request(msn, on(qp, fetch_add, 1)));
  qp.say(together, fmt::format("a Read and {} atomics at once, at an IRD of {}", asked - 1, depth));
  std::uint32_t answered = 0;
  for (;;) {
    const auto seen = qp.next();
    bench.require(seen.has_value(), "a response to each request, or a Terminate",
                  fmt::format("silence after {} of {} responses", answered, asked));
    if (seen->is(RdmapOperation::atomic_response) || seen->is(RdmapOperation::read_response)) {
      if (seen->get<Ddp, "last">() == 1U && ++answered == asked)
        end_case(Verdict::may, "all requests were answered fast enough to stay within the depth");
      continue;
    }
    bench.require(seen->is(RdmapOperation::terminate), "a Terminate", seen->text());
    return;
  }
}

// ---- EXT-017, EXT-019

void atomic_between_streams(IwarpBench& bench) {
  Connected& first = bench.connect();
  Connected& second = bench.connect({.region_bytes = 64});
  constexpr std::uint32_t rounds = 16;
  for (std::uint32_t msn = 1; msn <= rounds; ++msn) {
    // Both streams belong to the same protection domain and use the first one's region.
    first >> atomic_request(msn, on(first, fetch_add, 1));
    second >> atomic_request(msn, on(first, fetch_add, 1));
  }
  std::uint64_t sum = 0;
  for (Connected* qp : {&first, &second})
    for (std::uint32_t msn = 1; msn <= rounds; ++msn)
      sum += *qp->wait(an(RdmapOperation::atomic_response, msn)).get<RdmapAtomicResponse, "original">();
  constexpr std::uint64_t count = 2 * rounds;
  bench.require(sum == count * (count - 1) / 2, fmt::format("original values that are 0 to {}, each once", count - 1),
                fmt::format("their sum is {}", sum));
}
void both_operations(IwarpBench& bench) {
  Word word(bench.connect());
  Connected& qp = word.qp();
  word.does(0, on(qp, fetch_add, 6)).does(6, on(qp, compare_swap, 9, all, 6));
  word.is(9);
}

}  // namespace

std::span<const Case> all() {
  static constexpr Case cases[] = {
      {.rule = "rdmap.requester.atomic.request-format",
       .role = Role::requester,
       .needs = Need::atomics,
       .run = requests_have_their_format},
      {.rule = "rdmap.responder.atomic.response-format", .needs = Need::atomics, .run = responses_have_their_format},
      {.rule = "rdmap.responder.atomic.identifier-returned", .needs = Need::atomics, .run = identifiers_come_back},
      {.rule = "rdmap.responder.atomic.fetch-add", .needs = Need::atomics, .run = adds_64_bits},
      {.rule = "rdmap.responder.atomic.fetch-add-masked",
       .variant = "fields",
       .needs = Need::atomics,
       .run = adds_in_fields},
      {.rule = "rdmap.responder.atomic.fetch-add-masked",
       .variant = "single bits",
       .needs = Need::atomics,
       .run = adds_single_bits},
      {.rule = "rdmap.responder.atomic.compare-swap",
       .variant = "equal",
       .needs = Need::atomics,
       .run = swaps_when_equal},
      {.rule = "rdmap.responder.atomic.compare-swap",
       .variant = "not equal",
       .needs = Need::atomics,
       .run = swaps_only_when_equal},
      {.rule = "rdmap.responder.atomic.compare-swap",
       .variant = "compare mask",
       .needs = Need::atomics,
       .run = compares_under_its_mask},
      {.rule = "rdmap.responder.atomic.compare-swap",
       .variant = "swap mask",
       .needs = Need::atomics,
       .run = swaps_under_its_mask},
      {.rule = "rdmap.responder.atomic.unknown-operation",
       .variant = "1",
       .needs = Need::atomics,
       .run = unknown_operation<1>},
      {.rule = "rdmap.responder.atomic.unknown-operation",
       .variant = "3",
       .needs = Need::atomics,
       .run = unknown_operation<3>},
      {.rule = "rdmap.responder.atomic.unknown-operation",
       .variant = "15",
       .needs = Need::atomics,
       .run = unknown_operation<15>},
      {.rule = "rdmap.responder.atomic.misaligned",
       .variant = "FetchAdd at 1",
       .needs = Need::atomics,
       .run = misaligned<1, fetch_add>},
      {.rule = "rdmap.responder.atomic.misaligned",
       .variant = "FetchAdd at 4",
       .needs = Need::atomics,
       .run = misaligned<4, fetch_add>},
      {.rule = "rdmap.responder.atomic.misaligned",
       .variant = "CmpSwap at 7",
       .needs = Need::atomics,
       .run = misaligned<7, compare_swap>},
      {.rule = "rdmap.responder.atomic.access", .variant = "unknown STag", .needs = Need::atomics, .run = unknown_stag},
      {.rule = "rdmap.responder.atomic.access", .variant = "bounds", .needs = Need::atomics, .run = out_of_bounds},
      {.rule = "rdmap.responder.atomic.access", .variant = "rights", .needs = Need::atomics, .run = without_the_right},
      {.rule = "rdmap.endpoint.atomic.shares-read-depth",
       .variant = "ORD",
       .role = Role::requester,
       .needs = Need::atomics,
       .run = own_depth},
      {.rule = "rdmap.endpoint.atomic.shares-read-depth",
       .variant = "order",
       .needs = Need::atomics,
       .run = responses_in_order},
      {.rule = "rdmap.responder.atomic.beyond-depth", .needs = Need::atomics, .run = beyond_the_depth},
      {.rule = "rdmap.responder.atomic.atomicity", .needs = Need::atomics, .run = atomic_between_streams},
      {.rule = "rdmap.responder.atomic.both-operations", .needs = Need::atomics, .run = both_operations},
  };
  return cases;
}

}  // namespace rdmawire::conformance::iwarp::rdmap_atomics_cases
