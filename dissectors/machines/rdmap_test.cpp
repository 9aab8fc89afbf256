#include "dissectors/machines/rdmap.hpp"

#include <gtest/gtest.h>

namespace rdmawire::machines {
namespace {

std::optional<IwarpError> judged(std::uint8_t control, bool tagged, std::uint32_t qn, RdmapAbilities abilities = {}) {
  return judge_control({.tagged = tagged, .control = control, .qn = qn}, abilities);
}

// RFC 5040, figure 4, RFC 7306, figure 2.
TEST(Rdmap, RequiresItsBufferModelAndQueue) {
  struct Row {
    std::uint8_t opcode;
    bool tagged;
    std::uint32_t qn;
  };
  constexpr Row rows[] = {{0, true, 0},  {1, false, 1}, {2, true, 0},  {3, false, 0}, {4, false, 0},  {5, false, 0},
                          {6, false, 0}, {7, false, 2}, {8, false, 0}, {9, false, 0}, {10, false, 1}, {11, false, 3}};
  for (const Row& row : rows) {
    const auto control = static_cast<std::uint8_t>(0x40 | row.opcode);
    EXPECT_EQ(judged(control, row.tagged, row.qn), std::nullopt) << int{row.opcode};
    EXPECT_EQ(judged(control, !row.tagged, row.qn), (IwarpError{0, 2, 6})) << int{row.opcode};
    if (!row.tagged) {
      EXPECT_EQ(judged(control, false, row.qn + 1), (IwarpError{1, 2, 1})) << int{row.opcode};
    }
    // Reserved bits are ignored.
    EXPECT_EQ(judged(static_cast<std::uint8_t>(control | 0x30), row.tagged, row.qn), std::nullopt);
  }
}

TEST(Rdmap, RejectsVersionsAndOpcodes) {
  EXPECT_EQ(judged(0x83, false, 0), (IwarpError{0, 2, 5}));
  EXPECT_EQ(judged(0x03, false, 0), (IwarpError{0, 2, 5}));
  EXPECT_EQ(judged(0x03, false, 0, {.version = 0}), std::nullopt);
  for (std::uint8_t opcode = 12; opcode < 16; ++opcode)
    EXPECT_EQ(judged(static_cast<std::uint8_t>(0x40 | opcode), false, 0), (IwarpError{0, 2, 6}));
  for (std::uint8_t opcode = 8; opcode < 12; ++opcode)
    EXPECT_EQ(judged(static_cast<std::uint8_t>(0x40 | opcode), false, 0, {.extensions = false}), (IwarpError{0, 2, 6}));
  EXPECT_EQ(RdmapAbilities{.extensions = false}.queues(), 3U);
  EXPECT_EQ(RdmapAbilities{}.queues(), 4U);
}

TEST(Rdmap, SegmentsOfAMessageHaveEqualControlBytes) {
  UntaggedQueue queue{.open = true, .control = 0x44, .invalidate_stag = 7};
  EXPECT_EQ(judge_continuation(queue, {.control = 0x44, .invalidate_stag = 7}), std::nullopt);
  EXPECT_EQ(judge_continuation(queue, {.control = 0x43, .invalidate_stag = 7}), (IwarpError{0, 2, 6}));
  EXPECT_EQ(judge_continuation(queue, {.control = 0x44, .invalidate_stag = 8}), (IwarpError{0, 2, 6}));
  queue.open = false;
  EXPECT_EQ(judge_continuation(queue, {.control = 0x43}), std::nullopt);
}

// Lengths: RFC 5040, 4.4 (28 bytes), RFC 7306, 5.2.1 (52), 5.2.2 (12), 6.3 (8).
TEST(Rdmap, HeaderOnlyMessagesHaveFixedLength) {
  using enum RdmapOperation;
  const std::pair<RdmapOperation, std::uint64_t> lengths[] = {
      {read_request, 28}, {atomic_request, 52}, {atomic_response, 12}, {immediate_data, 8}, {immediate_data_se, 8}};
  for (const auto& [operation, bytes] : lengths) {
    EXPECT_EQ(judge_length(operation, bytes), std::nullopt);
    EXPECT_EQ(judge_length(operation, bytes - 1), (IwarpError{0, 2, 0xff}));
    EXPECT_EQ(judge_length(operation, bytes + 1), (IwarpError{1, 2, 5}));
  }
  EXPECT_EQ(judge_length(send, 0), std::nullopt);
  EXPECT_EQ(judge_length(terminate, 3), (IwarpError{0, 2, 0xff}));
  EXPECT_EQ(judge_length(terminate, 52), std::nullopt);
}

// RFC 5040, figure 9.
TEST(Rdmap, ProtectionErrorCodes) {
  EXPECT_EQ(protection_error(AccessReason::unknown_key, 0, 8), (IwarpError{0, 1, 0}));
  EXPECT_EQ(protection_error(AccessReason::out_of_bounds, 0, 8), (IwarpError{0, 1, 1}));
  EXPECT_EQ(protection_error(AccessReason::right, 0, 8), (IwarpError{0, 1, 2}));
  EXPECT_EQ(protection_error(AccessReason::other_domain, 0, 8), (IwarpError{0, 1, 3}));
  EXPECT_EQ(protection_error(AccessReason::beyond_address_space, ~0ULL, 8), (IwarpError{0, 1, 4}));
}

TEST(Rdmap, DepthAndFenceDelayRequests) {
  ReadDepth depth{.ord = 2, .ird = 1};
  EXPECT_TRUE(may_begin(depth, true, false));
  depth.outstanding = 1;
  EXPECT_TRUE(may_begin(depth, true, false));
  EXPECT_FALSE(may_begin(depth, true, true));
  EXPECT_FALSE(may_begin(depth, false, true));
  EXPECT_TRUE(may_begin(depth, false, false));
  depth.outstanding = 2;
  EXPECT_FALSE(may_begin(depth, true, false));
  EXPECT_TRUE(depth.has_buffer());
  depth.serving = 1;
  EXPECT_FALSE(depth.has_buffer());
}

TEST(Rdmap, ResponsesAreComparedWithTheirRequest) {
  const ReadSink sink{.stag = 5, .to = 1000, .bytes = 100, .received = 60};
  const auto segment = [](std::uint32_t stag, std::uint64_t to, std::uint32_t bytes, bool last) {
    return DdpSegment{.tagged = true, .last = last, .stag = stag, .to = to, .bytes = bytes};
  };
  EXPECT_EQ(judge_response(&sink, segment(5, 1060, 40, true)), std::nullopt);
  EXPECT_EQ(judge_response(&sink, segment(5, 1060, 39, false)), std::nullopt);
  EXPECT_EQ(judge_response(&sink, segment(6, 1060, 40, true)), (IwarpError{1, 1, 0}));
  EXPECT_EQ(judge_response(&sink, segment(5, 1061, 39, true)), (IwarpError{1, 1, 1}));
  EXPECT_EQ(judge_response(&sink, segment(5, 1060, 41, false)), (IwarpError{1, 1, 1}));
  EXPECT_EQ(judge_response(&sink, segment(5, 1060, 39, true)), (IwarpError{1, 1, 1}));
  EXPECT_EQ(judge_response(nullptr, segment(5, 1060, 40, true)), (IwarpError{0, 2, 6}));
  const ReadSink empty{.stag = 5};
  EXPECT_EQ(judge_response(&empty, segment(99, 99, 0, true)), std::nullopt);
}

/// RFC 7306, 5.1.1: the loop that the specification contains.
std::uint64_t added_bit_by_bit(std::uint64_t original, std::uint64_t add, std::uint64_t mask) {
  std::uint64_t value = 0, carry = 0;
  for (unsigned bit = 0; bit < 64; ++bit) {
    const std::uint64_t sum = carry + (original >> bit & 1) + (add >> bit & 1);
    value |= (sum & 1) << bit;
    carry = (sum >> 1) & ~(mask >> bit) & 1;
  }
  return value;
}

TEST(Rdmap, FetchAddKeepsCarriesInTheirFields) {
  EXPECT_EQ(fetch_add(5, 7, 0), 12U);
  EXPECT_EQ(fetch_add(~0ULL, 1, 0), 0U);
  EXPECT_EQ(fetch_add(0x00000000ffffffff, 1, 0x0000000080000000), 0U);
  EXPECT_EQ(fetch_add(0x00ff00ff00ff00ff, 0x0001000100010001, 0x0080008000800080), 0x0000000000000000U);
  std::uint64_t seed = 1;
  const auto next = [&] { return seed = seed * 6364136223846793005ULL + 1442695040888963407ULL; };
  for (int i = 0; i < 10'000; ++i) {
    const std::uint64_t original = next(), add = next(), mask = next() & next();
    ASSERT_EQ(fetch_add(original, add, mask), added_bit_by_bit(original, add, mask));
  }
}

// RFC 7306, 5.1.2.
TEST(Rdmap, CompareSwapMasksBoth) {
  EXPECT_EQ(compare_swap(5, 5, ~0ULL, 9, ~0ULL), 9U);
  EXPECT_EQ(compare_swap(5, 6, ~0ULL, 9, ~0ULL), 5U);
  EXPECT_EQ(compare_swap(0x1234, 0xff34, 0x00ff, 0xabcd, 0xf000), 0xa234U);
  EXPECT_EQ(compare_swap(7, 123, 0, 9, ~0ULL), 9U);
}

TEST(Rdmap, AtomicsMustBeAlignedAndDefined) {
  EXPECT_EQ(judge_atomic(0, 0x1000), std::nullopt);
  EXPECT_EQ(judge_atomic(2, 0x1008), std::nullopt);
  for (const std::uint8_t operation : {1, 3, 15}) EXPECT_EQ(judge_atomic(operation, 0x1000), (IwarpError{0, 2, 6}));
  EXPECT_EQ(judge_atomic(0, 0x1004), (IwarpError{0, 2, 7}));
}

// RFC 5040, 5.4, 6.2.1, 7.1 rule 4.
TEST(Stream, FirstErrorIsReportedAndCloses) {
  using enum StreamState;
  StreamStep step = after(operating, StreamEvent::error);
  EXPECT_EQ(step, (StreamStep{terminating, {.terminate = true, .fin = true, .flush = true, .tell_error = true}}));
  EXPECT_EQ(after(terminating, StreamEvent::error), (StreamStep{terminating, {}}));
  EXPECT_EQ(after(terminating, StreamEvent::terminate), (StreamStep{terminating, {}}));
  EXPECT_EQ(after(terminating, StreamEvent::fin), (StreamStep{closed, {.tell_closed = true}}));
  EXPECT_EQ(after(terminating, StreamEvent::timeout), (StreamStep{closed, {.reset = true, .tell_closed = true}}));
}

TEST(Stream, TerminateIsNotAnsweredByTerminate) {
  using enum StreamState;
  EXPECT_EQ(after(operating, StreamEvent::terminate),
            (StreamStep{terminated, {.fin = true, .flush = true, .tell_error = true}}));
  EXPECT_EQ(after(terminated, StreamEvent::error), (StreamStep{terminated, {}}));
  EXPECT_EQ(after(closing, StreamEvent::terminate), (StreamStep{terminated, {.flush = true, .tell_error = true}}));
}

// RFC 5041, 6.2.1.
TEST(Stream, ClosesEachDirection) {
  using enum StreamState;
  EXPECT_EQ(after(operating, StreamEvent::fin), (StreamStep{peer_closed, {.tell_closed = true}}));
  EXPECT_EQ(after(peer_closed, StreamEvent::consumer_closes),
            (StreamStep{closed, {.fin = true, .flush = true, .tell_closed = true}}));
  EXPECT_EQ(after(operating, StreamEvent::consumer_closes), (StreamStep{closing, {.fin = true}}));
  EXPECT_EQ(after(closing, StreamEvent::fin), (StreamStep{closed, {.flush = true, .tell_closed = true}}));
}

TEST(Stream, FinInsideMessageOrDataAfterFinAborts) {
  using enum StreamState;
  const StreamStep aborted{closed, {.reset = true, .flush = true, .tell_error = true}};
  EXPECT_EQ(after(operating, StreamEvent::fin_in_message), aborted);
  EXPECT_EQ(after(peer_closed, StreamEvent::error), aborted);
  EXPECT_EQ(after(closing, StreamEvent::error), aborted);
  EXPECT_EQ(after(closed, StreamEvent::error), (StreamStep{closed, {}}));
}

}  // namespace
}  // namespace rdmawire::machines
