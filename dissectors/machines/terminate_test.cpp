#include "dissectors/machines/terminate.hpp"

#include <gtest/gtest.h>

#include "dissectors/protocol/testing.hpp"

namespace rdmawire::machines {
namespace {

using rdmawire::testing::from_hex;

// A Send of 4 bytes with MSN 9, for which there is no buffer. Figure 8 encodes layer 1, type 2, code 2, M and D as 12
// 02 c0 00.
TEST(Terminate, QuotesTheSegmentOfADdpError) {
  const auto segment = from_hex("41 43 00000000 00000000 00000009 00000000 01020304");
  EXPECT_EQ(terminate_message({1, 2, 2}, {.segment = segment}),
            from_hex("12 02 c0 00 0016 41 43 00000000 00000000 00000009 00000000"));
}

TEST(Terminate, QuotesTaggedHeader) {
  const auto segment = from_hex("c1 40 0badc0de 0000000000001000 ff");
  EXPECT_EQ(terminate_message({1, 1, 0}, {.segment = segment}),
            from_hex("11 00 c0 00 000f c1 40 0badc0de 0000000000001000"));
}

const std::string read_segment_bytes =
    "41 41 00000000 00000001 00000003 00000000"
    "00000051 0000000000001000 00001000 00000052 0000000000002000";

TEST(Terminate, QuotesTheReadRequestOfAProtectionError) {
  EXPECT_EQ(terminate_message({0, 1, 2}, {.segment = from_hex(read_segment_bytes)}),
            from_hex("01 02 e0 00 002e" + read_segment_bytes));
}

// RFC 5040, 4.8: after 2048 bytes of the response, both offsets are increased by 2048.
TEST(Terminate, QuotesTheCurrentOffsetsOfARead) {
  EXPECT_EQ(terminate_message({0, 1, 1}, {.segment = from_hex(read_segment_bytes), .answered = 2048}),
            from_hex("01 01 e0 00 002e 41 41 00000000 00000001 00000003 00000000"
                     "00000051 0000000000001800 00000800 00000052 0000000000002800"));
}

// Figure 10.
TEST(Terminate, IncludesHeadersOfFigure10) {
  using enum RdmapOperation;
  EXPECT_EQ(includes({0, 0, 0}, read_request), (TerminateIncludes{}));
  EXPECT_EQ(includes({0, 1, 0}, read_request), (TerminateIncludes{true, true}));
  EXPECT_EQ(includes({0, 1, 9}, send_invalidate), (TerminateIncludes{true, false}));
  EXPECT_EQ(includes({0, 1, 0}, atomic_request), (TerminateIncludes{true, false}));
  EXPECT_EQ(includes({0, 2, 6}, read_request), (TerminateIncludes{true, false}));
  EXPECT_EQ(includes({1, 2, 1}, read_request), (TerminateIncludes{true, false}));
  EXPECT_EQ(includes({1, 1, 1}, rdma_write), (TerminateIncludes{true, false}));
  EXPECT_EQ(includes({2, 0, 2}, send), (TerminateIncludes{}));
  EXPECT_EQ(includes({0, 2, 7}, std::nullopt), (TerminateIncludes{}));
}

TEST(Terminate, MpaErrorsQuoteNoHeader) {
  const auto segment = from_hex("41 43 00000000 00000000 00000009 00000000");
  EXPECT_EQ(terminate_message({2, 0, 2}, {.segment = segment}), from_hex("20 02 00 00"));
  EXPECT_EQ(terminate_message({0, 0, 0}, {}), from_hex("00 00 00 00"));
}

TEST(Terminate, QuotesNoMissingHeader) {
  EXPECT_EQ(terminate_message({1, 0, 0}, {.segment = from_hex("41 43 0000")}), from_hex("10 00 00 00"));
  // A Read Request whose header is missing: only D is set.
  EXPECT_EQ(terminate_message({0, 1, 0}, {.segment = from_hex("41 41 00000000 00000001 00000003 00000000 00")}),
            from_hex("01 00 c0 00 0013 41 41 00000000 00000001 00000003 00000000"));
}

TEST(Terminate, Decodes) {
  const auto terminate = read_terminate(from_hex("12 03 c0 00 0012 41 43 00000000 00000000 00000009 00000000"));
  ASSERT_TRUE(terminate);
  EXPECT_EQ(terminate->error, (IwarpError{1, 2, 3}));
  EXPECT_TRUE(terminate->length_valid && terminate->ddp_header);
  EXPECT_FALSE(terminate->rdma_header);
  EXPECT_FALSE(read_terminate(from_hex("12 03 c0")));
  EXPECT_FALSE(read_terminate(from_hex("12 03 c0 00 0012 41 43")));
}

// The numbers of RFC 5040 figure 9, RFC 5041 7.2, RFC 5044 8 and RFC 6581 8.
TEST(IwarpErrors, ErrorNumbersMatchTheSpecifications) {
  using namespace iwarp_error;
  EXPECT_EQ(local_catastrophic, (IwarpError{0, 0, 0}));
  EXPECT_EQ(protection_invalid_stag, (IwarpError{0, 1, 0}));
  EXPECT_EQ(protection_to_wrap, (IwarpError{0, 1, 4}));
  EXPECT_EQ(rdmap_version, (IwarpError{0, 2, 5}));
  EXPECT_EQ(cannot_invalidate, (IwarpError{0, 2, 9}));
  EXPECT_EQ(operation_unspecified, (IwarpError{0, 2, 0xff}));
  EXPECT_EQ(tagged_version, (IwarpError{1, 1, 4}));
  EXPECT_EQ(untagged_version, (IwarpError{1, 2, 6}));
  EXPECT_EQ(tcp_lost, (IwarpError{2, 0, 1}));
  EXPECT_EQ(setup_frame, (IwarpError{2, 0, 4}));
  EXPECT_EQ(insufficient_ird, (IwarpError{2, 0, 6}));
}

}  // namespace
}  // namespace rdmawire::machines
