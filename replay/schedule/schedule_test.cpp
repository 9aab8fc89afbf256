#include "replay/schedule/schedule.hpp"

#include <gtest/gtest.h>

#include <random>
#include <vector>

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

/// Maximum number of bytes in any period of this length.
std::uint64_t most_in(const std::vector<std::pair<std::int64_t, std::uint32_t>>& sent, std::int64_t period) {
  std::uint64_t most = 0, sum = 0;
  for (std::size_t end = 0, begin = 0; end < sent.size(); ++end) {
    sum += sent[end].second;
    while (sent[end].first - sent[begin].first >= period) sum -= sent[begin++].second;
    most = std::max(most, sum);
  }
  return most;
}

// The sender is sometimes late, and sometimes has nothing to send.
TEST(RateCap, IsNeverExceededInTenMilliseconds) {
  std::mt19937_64 random(5);
  for (const std::uint64_t rate : {20'000'000ULL, 200'000'000ULL, 1'000'000'000ULL, 25'000'000'000ULL}) {
    RateCap cap(rate);
    std::vector<std::pair<std::int64_t, std::uint32_t>> sent;
    std::int64_t now = anchor;
    const std::int64_t end = anchor + second / 5;
    while (now < end) {
      if (random() % 5000 == 0) now += static_cast<std::int64_t>(random() % 30'000'000);
      std::uint64_t before = 0;
      std::vector<std::uint32_t> batch;
      std::int64_t at = now;
      while (batch.size() < 64) {
        const auto bytes = static_cast<std::uint32_t>(60 + random() % 4096);
        at = cap.allowed(now, bytes, before);
        if (at > now) break;
        batch.push_back(bytes);
        before += bytes;
      }
      for (const std::uint32_t bytes : batch) sent.emplace_back(now, bytes);
      if (before != 0) cap.sent(now, before);
      now = at + static_cast<std::int64_t>(random() % 2000);
    }
    const auto bytes_in = [&](double seconds) { return static_cast<double>(rate) / 8 * seconds; };
    EXPECT_LE(static_cast<double>(most_in(sent, 10'000'000)), bytes_in(10e-3)) << rate;
    EXPECT_LE(static_cast<double>(most_in(sent, 1'000'000)), bytes_in(1.5e-3) + 4156) << rate;
    // The busiest 10 ms nearly reach the rate.
    EXPECT_GE(static_cast<double>(most_in(sent, 10'000'000)), bytes_in(10e-3) - 3 * 4156) << rate;
  }
}

TEST(RateCap, KeepsAverageOfRateBelowOneFramePerWindow) {
  RateCap cap(100'000);  // a frame of 1250 bytes takes 100 ms
  std::int64_t now = anchor;
  for (int i = 0; i < 100; ++i) {
    now = cap.allowed(now, 1250);
    cap.sent(now, 1250);
  }
  EXPECT_EQ(now, anchor + 99 * (second / 10) - RateCap::burst);
}

TEST(RateCap, ZeroIsUnlimited) {
  EXPECT_FALSE(RateCap(0).on());
  EXPECT_EQ(RateCap(0).allowed(5, 1'000'000), 5);
}

TEST(RateCap, OddRateHasNoRoundingError) {
  RateCap cap(3);  // one bit takes one third of a second
  std::int64_t at = 0;
  for (int i = 0; i <= 300; ++i) {
    at = cap.allowed(at, 1);
    cap.sent(at, 1);
  }
  EXPECT_EQ(at, 800 * second - RateCap::burst);
}

}  // namespace
}  // namespace rdmawire::replay
