#include "dissectors/machines/ddp.hpp"

#include <gtest/gtest.h>

#include "dissectors/protocol/testing.hpp"

namespace rdmawire::machines {
namespace {

using rdmawire::testing::from_hex;

constexpr auto buffer_of_100 = [](std::uint32_t) { return UntaggedBuffer{true, 100}; };

DdpSegment untagged(std::uint32_t qn, std::uint32_t msn, std::uint32_t mo, std::uint32_t bytes, bool last = true) {
  return {.last = last, .control = 0x43, .qn = qn, .msn = msn, .mo = mo, .bytes = bytes};
}
DdpVerdict delivered() { return {.delivers = true}; }
DdpVerdict refused(std::uint8_t type, std::uint8_t code) { return ddp_refused({1, type, code}); }

TEST(DdpReceiver, ReadsHeaders) {
  const auto send = read_segment(from_hex("41 43 00000007 00000002 00000003 00000004 abcd"));
  ASSERT_TRUE(send);
  EXPECT_FALSE(send->tagged);
  EXPECT_TRUE(send->last);
  EXPECT_EQ(send->version, 1);
  EXPECT_EQ(send->control, 0x43);
  EXPECT_EQ(send->invalidate_stag, 7U);
  EXPECT_EQ(send->qn, 2U);
  EXPECT_EQ(send->msn, 3U);
  EXPECT_EQ(send->mo, 4U);
  EXPECT_EQ(send->bytes, 2U);
  const auto write = read_segment(from_hex("81 40 01020304 1122334455667788 ff"));
  ASSERT_TRUE(write);
  EXPECT_TRUE(write->tagged);
  EXPECT_FALSE(write->last);
  EXPECT_EQ(write->stag, 0x01020304U);
  EXPECT_EQ(write->to, 0x1122334455667788U);
  EXPECT_EQ(write->bytes, 1U);
  EXPECT_FALSE(read_segment({}));
  EXPECT_FALSE(read_segment(from_hex("41 43 00000007 00000002 00000003 000000")));
  EXPECT_FALSE(read_segment(from_hex("81 40 01020304 11223344556677")));
}

// RFC 5041, 4.3 and 5.2: MSNs start at 1 and count messages. The MO is the offset of the segment's first byte in the
// message.
TEST(DdpReceiver, AcceptsMessagesInOrder) {
  DdpReceiver at;
  EXPECT_EQ(judge_untagged(at, untagged(0, 1, 0, 60, false), buffer_of_100), DdpVerdict{});
  at = placed(at, untagged(0, 1, 0, 60, false));
  EXPECT_EQ(judge_untagged(at, untagged(0, 1, 60, 40), buffer_of_100), delivered());
  at = placed(at, untagged(0, 1, 60, 40));
  EXPECT_EQ(judge_untagged(at, untagged(0, 2, 0, 0), buffer_of_100), delivered());
  EXPECT_EQ(at.queues[1].expected.value(), 1U);
}

TEST(DdpReceiver, MsnsWrapToZero) {
  DdpReceiver at;
  at.queues[0].expected = DdpMsn(0xffffffff);
  at = placed(at, untagged(0, 0xffffffff, 0, 1));
  EXPECT_EQ(judge_untagged(at, untagged(0, 0, 0, 1), buffer_of_100), delivered());
}

// RFC 5041, 7.2: error codes of untagged segments.
TEST(DdpReceiver, RejectsUntaggedSegmentsWithTheirCodes) {
  DdpReceiver at;
  DdpSegment other = untagged(0, 1, 0, 1);
  other.version = 2;
  EXPECT_EQ(judge_untagged(at, other, buffer_of_100), refused(2, 6));
  EXPECT_EQ(judge_untagged(at, untagged(3, 1, 0, 1), buffer_of_100), refused(2, 1));
  EXPECT_EQ(judge_untagged(at, untagged(0xffffffff, 1, 0, 1), buffer_of_100), refused(2, 1));
  EXPECT_EQ(judge_untagged(at, untagged(0, 1, 0, 1), [](std::uint32_t) { return UntaggedBuffer{}; }), refused(2, 2));
  EXPECT_EQ(judge_untagged(at, untagged(0, 2, 0, 1), buffer_of_100), refused(2, 3));
  EXPECT_EQ(judge_untagged(at, untagged(0, 0, 0, 1), buffer_of_100), refused(2, 3));
  EXPECT_EQ(judge_untagged(at, untagged(0, 1, 4, 1), buffer_of_100), refused(2, 4));
  EXPECT_EQ(judge_untagged(at, untagged(0, 1, 0, 101), buffer_of_100), refused(2, 5));
  at.queue_count = 4;
  EXPECT_EQ(judge_untagged(at, untagged(3, 1, 0, 1), buffer_of_100), delivered());
}

TEST(DdpReceiver, EmptySegmentOffsetIsIgnored) {
  EXPECT_EQ(judge_untagged(DdpReceiver{}, untagged(0, 1, 4000, 0), buffer_of_100), delivered());
}

DdpSegment tagged(std::uint64_t to, std::uint32_t bytes) {
  return {.tagged = true, .last = true, .control = 0x40, .stag = 1, .to = to, .bytes = bytes};
}

// RFC 5041, 7.2: error codes of tagged segments.
TEST(DdpReceiver, RejectsTaggedSegmentsWithTheirCodes) {
  const auto because = [](AccessReason reason, std::uint64_t to, std::uint32_t bytes) {
    return judge_tagged(1, tagged(to, bytes), [&] {
      return AccessDecision{reason == AccessReason::none ? AccessAnswer::allowed : AccessAnswer::remote_access_error,
                            reason};
    });
  };
  EXPECT_EQ(because(AccessReason::none, 0, 4), delivered());
  EXPECT_EQ(because(AccessReason::unknown_key, 0, 4), refused(1, 0));
  EXPECT_EQ(because(AccessReason::not_valid, 0, 4), refused(1, 0));
  EXPECT_EQ(because(AccessReason::right, 0, 4), refused(1, 0));
  EXPECT_EQ(because(AccessReason::out_of_bounds, 0, 4), refused(1, 1));
  EXPECT_EQ(because(AccessReason::other_domain, 0, 4), refused(1, 2));
  EXPECT_EQ(because(AccessReason::other_queue_pair, 0, 4), refused(1, 2));
  EXPECT_EQ(because(AccessReason::beyond_address_space, 0xfffffffffffffffe, 4), refused(1, 3));
  EXPECT_EQ(because(AccessReason::out_of_bounds, 0xfffffffffffffffc, 4), refused(1, 3));
  DdpSegment other = tagged(0, 4);
  other.version = 0;
  EXPECT_EQ(judge_tagged(1, other, [] { return AccessDecision{}; }), refused(1, 4));
}

TEST(DdpReceiver, EmptySegmentStagIsIgnored) {
  bool looked = false;
  EXPECT_EQ(judge_tagged(1, tagged(~0ULL, 0),
                         [&] {
                           looked = true;
                           return AccessDecision{};
                         }),
            delivered());
  EXPECT_FALSE(looked);
}

// RFC 5041, 5.2: the examples in the specification.
TEST(DdpSender, SegmentationMatchesTheExamples) {
  EXPECT_EQ(next_piece(0, 2048, 1500, false), (DdpPiece{0, 1482, false}));
  EXPECT_EQ(next_piece(1482, 2048, 1500, false), (DdpPiece{1482, 566, true}));
  EXPECT_EQ(next_piece(0, 2048, 1500, true), (DdpPiece{0, 1486, false}));
  EXPECT_EQ(next_piece(1486, 2048, 1500, true), (DdpPiece{1486, 562, true}));
  EXPECT_EQ(next_piece(0, 0, 1500, true), (DdpPiece{0, 0, true}));
  EXPECT_EQ(next_piece(0, 1482, 1500, false), (DdpPiece{0, 1482, true}));
}

}  // namespace
}  // namespace rdmawire::machines
