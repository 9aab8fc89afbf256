#include "replay/player/flow_statistics.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "replay/faults/frames_for_test.hpp"

namespace rdmawire::replay {
namespace {

using ::testing::HasSubstr;
namespace frames = rdmawire::replay::testing;

TEST(FlowStatistics, FlowsAreCountedByAddressesPortsAndQp) {
  FlowStatistics statistics;
  const auto request = frames::request(100);
  for (std::int64_t i = 0; i < 3; ++i) statistics.add(request, LinkType::ethernet, 1000 + i * 500);
  auto other = frames::request(101);
  other.back() ^= 1;  // the same flow, although the ICRC is invalid
  statistics.add(other, LinkType::ethernet, 3000);
  auto another_port = frames::request(100);
  another_port[34] ^= 1;  // UDP source port
  statistics.add(another_port, LinkType::ethernet, 1500);
  const std::vector<std::uint8_t> arp(60, 0);
  statistics.add(arp, LinkType::ethernet, 9000);
  const FlowReport report = statistics.report();
  EXPECT_EQ(report.flows, 2U);
  EXPECT_EQ(report.other_frames, 1U);
  EXPECT_EQ(report.beyond_frames, 0U);
  EXPECT_EQ(report.nanoseconds, 2000);
  ASSERT_EQ(report.largest.size(), 2U);
  EXPECT_EQ(report.largest[0].frames, 4U);
  EXPECT_EQ(report.largest[0].bytes, 4 * request.size());
  EXPECT_EQ(report.largest[0].nanoseconds, 2000);
  EXPECT_THAT(report.largest[0].who, HasSubstr(":4791 RoCE QP 0x11"));
  EXPECT_EQ(report.largest[1].frames, 1U);
}

TEST(FlowStatistics, FramesOfFurtherFlowsAreCountedWhenTheTableIsFull) {
  FlowStatistics statistics;
  auto frame = frames::request(100);
  for (std::uint32_t i = 0; i < FlowStatistics::most_flows + 5; ++i) {
    store_be(frame.data() + 26, 4, i);  // source address
    statistics.add(frame, LinkType::ethernet, i);
  }
  const FlowReport report = statistics.report();
  EXPECT_EQ(report.flows, FlowStatistics::most_flows);
  EXPECT_EQ(report.beyond_frames, 5U);
  EXPECT_EQ(report.largest.size(), FlowReport::most_listed);
}

}  // namespace
}  // namespace rdmawire::replay
