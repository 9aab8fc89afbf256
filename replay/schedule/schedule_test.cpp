#include "replay/schedule/schedule.hpp"

#include <gtest/gtest.h>

namespace rdmawire::replay {
namespace {

constexpr std::int64_t second = 1'000'000'000, anchor = 1'700'000'000 * second;

TEST(Schedule, CapturedPaceKeepsGaps) {
  Schedule schedule({}, anchor);
  EXPECT_EQ(schedule.next(500, 100), anchor);
  EXPECT_EQ(schedule.next(1500, 100), anchor + 1000);
  EXPECT_EQ(schedule.next(1200, 100), anchor + 700) << "decreasing times stay decreasing";
  EXPECT_EQ(schedule.next(500 + 3600 * second + 1, 100), anchor + 3600 * second + 1);
  EXPECT_EQ(schedule.latest(), anchor + 3600 * second + 1);
}

TEST(Schedule, TripleSpeedIsExactAfterHours) {
  Pace pace;
  pace.rate = 3;
  Schedule schedule(pace, anchor);
  EXPECT_EQ(schedule.next(7, 100), anchor);
  // Gaps of one nanosecond would vanish if each gap were divided separately.
  for (int i = 1; i <= 10; ++i) schedule.next(7 + i, 100);
  EXPECT_EQ(schedule.latest(), anchor + 3);
  EXPECT_EQ(schedule.next(7 + 3 * 36'000 * second, 100), anchor + 36'000 * second);
}

TEST(Schedule, LongGapsAreShortened) {
  Pace pace;
  pace.most_gap = 10;
  Schedule schedule(pace, anchor);
  EXPECT_EQ(schedule.next(0, 100), anchor);
  EXPECT_EQ(schedule.next(10, 100), anchor + 10);
  EXPECT_EQ(schedule.next(1010, 100), anchor + 20);
  EXPECT_EQ(schedule.next(1015, 100), anchor + 25);
}

TEST(Schedule, PacketRateIsExact) {
  Pace pace{Pace::Kind::packets, 3};
  Schedule schedule(pace, anchor);
  std::int64_t at = 0;
  for (std::uint64_t i = 0; i <= 3 * 3600; ++i) at = schedule.next(0, 100);
  EXPECT_EQ(at, anchor + 3600 * second) << "gap 10,800 of one third of a second";
}

TEST(Schedule, BurstIsSentTogether) {
  Pace pace{Pace::Kind::packets, 1000};
  pace.burst = 4;
  Schedule schedule(pace, anchor);
  for (int i = 0; i < 4; ++i) EXPECT_EQ(schedule.next(0, 100), anchor);
  for (int i = 0; i < 4; ++i) EXPECT_EQ(schedule.next(0, 100), anchor + 4'000'000);
}

TEST(Schedule, BitRateCountsPrecedingFrames) {
  Pace pace{Pace::Kind::bits, 8e9};  // one byte per nanosecond
  Schedule schedule(pace, anchor);
  EXPECT_EQ(schedule.next(0, 1500), anchor);
  EXPECT_EQ(schedule.next(0, 64), anchor + 1500);
  EXPECT_EQ(schedule.next(0, 64), anchor + 1564);
  EXPECT_EQ(schedule.length(), 1628);
}

TEST(Schedule, LoopStartsAfterPause) {
  Schedule schedule({}, anchor);
  schedule.next(100, 1);
  schedule.next(1100, 1);
  schedule.begin_again(50);
  EXPECT_EQ(schedule.next(100, 1), anchor + 1050);
  EXPECT_EQ(schedule.next(1100, 1), anchor + 2050);
  Schedule steady({Pace::Kind::packets, 1e9}, anchor);
  steady.next(0, 1);
  steady.begin_again(50);
  EXPECT_EQ(steady.next(0, 1), anchor + 51) << "one nanosecond per packet plus the pause";
}

TEST(RateCap, DelaysFramesAboveRateAndAllowsBurst) {
  RateCap cap(8'000'000'000, 3000);  // one byte per nanosecond, 3000 bytes of burst
  EXPECT_EQ(cap.allow(1'000'000, 1500), 1'000'000);
  EXPECT_EQ(cap.allow(1'000'000, 1500), 1'000'000);
  EXPECT_EQ(cap.allow(1'000'000, 1500), 1'000'000) << "burst of 3000 bytes is used up";
  EXPECT_EQ(cap.allow(1'000'000, 1500), 1'001'500);
  EXPECT_EQ(cap.allow(2'000'000, 1500), 2'000'000) << "idle time restores the burst";
  EXPECT_FALSE(RateCap(0).on());
  EXPECT_EQ(RateCap(0).allow(5, 1'000'000), 5);
}

TEST(RateCap, OddRateHasNoRoundingError) {
  RateCap cap(3, 0);  // one bit takes one third of a second
  std::int64_t at = 0;
  for (int i = 0; i <= 300; ++i) at = cap.allow(0, 1);
  EXPECT_EQ(at, 800 * second);
}

}  // namespace
}  // namespace rdmawire::replay
