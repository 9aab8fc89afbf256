// Simulates clocks with known offset and drift, and packets with delays. The estimated intervals must contain the true
// values.

#include "captures/analysis/vantage/clocks.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

namespace rdmawire::captures::vantage {
namespace {

using Bound = ClockPoint::Bound;

constexpr std::int64_t second = 1'000'000'000;
constexpr std::int64_t origin = 1'782'371'679 * second;

struct Clocks {
  std::int64_t offset = 0;  ///< second clock minus first clock, at `origin`
  double drift = 0;         ///< parts per million
  [[nodiscard]] std::int64_t difference(std::int64_t first) const {
    return offset + static_cast<std::int64_t>(static_cast<double>(first - origin) * drift * 1e-6);
  }
};

/// Returns a packet that passes one capture at `time` of the first clock, and the other capture after `delay`.
ClockPoint point(const Clocks& clocks, std::int64_t time, std::int64_t delay, Bound bound) {
  if (bound == Bound::below) return {time + delay, time + clocks.difference(time), bound};
  return {time, time + delay + clocks.difference(time + delay), bound};
}

std::vector<ClockPoint> points(std::mt19937_64& random, const Clocks& clocks, int count, std::int64_t span,
                               std::int64_t least_delay, bool both = true) {
  std::vector<ClockPoint> result;
  std::exponential_distribution<double> queue(1.0 / 20'000);
  for (int i = 0; i < count; ++i)
    result.push_back(point(clocks, origin + static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(span)),
                           least_delay + static_cast<std::int64_t>(queue(random)),
                           both && i % 2 ? Bound::below : Bound::above));
  return result;
}

TEST(Clocks, IntervalsContainOffsetAndDrift) {
  std::mt19937_64 random(1);
  for (int round = 0; round < 200; ++round) {
    const Clocks clocks{static_cast<std::int64_t>(random() % (20 * second)) - 10 * second,
                        (static_cast<double>(random() % 2001) - 1000) / 10};
    const std::int64_t span = second / 100 << random() % 12, delay = 500 + static_cast<std::int64_t>(random() % 50'000);
    const ClockEstimate e = estimate(points(random, clocks, 20 + static_cast<int>(random() % 2000), span, delay), 1);
    const std::int64_t truth = clocks.difference(e.at);
    ASSERT_TRUE(e.low && e.high && e.drift_low && e.drift_high);
    EXPECT_LE(*e.low, truth + 2) << "round " << round;
    EXPECT_GE(*e.high, truth - 2) << "round " << round;
    EXPECT_LE(*e.drift_low, clocks.drift + 0.01);
    EXPECT_GE(*e.drift_high, clocks.drift - 0.01);
    EXPECT_LE(*e.low, e.offset);
    EXPECT_GE(*e.high, e.offset);
    EXPECT_EQ(e.unsteady, 0);
  }
}

TEST(Clocks, IntervalNarrowsToShortestRoundTrip) {
  std::mt19937_64 random(2);
  const ClockEstimate e = estimate(points(random, {-3 * second, 50}, 20'000, 10 * second, 5'000), 1);
  EXPECT_LE(*e.high - *e.low, 2 * 5'000 + 1'000);
  EXPECT_NEAR(e.drift, 50, 0.01);
  EXPECT_LE(*e.drift_high - *e.drift_low, 5);
}

TEST(Clocks, OneDirectionBoundsOneSide) {
  std::mt19937_64 random(3);
  const Clocks clocks{second, -20};
  const ClockEstimate above = estimate(points(random, clocks, 5000, 10 * second, 3'000, false), 1);
  ASSERT_TRUE(above.high);
  EXPECT_FALSE(above.low);
  EXPECT_GE(*above.high, clocks.difference(above.at));
  EXPECT_NEAR(above.drift, -20, 0.2);
}

TEST(Clocks, FirstOfInvertsDifference) {
  ClockEstimate e;
  e.at = origin;
  e.offset = 5 * second;
  e.drift = 80;
  for (const std::int64_t t : {origin - 7200 * second, origin, origin + 123'456'789, origin + 86400 * second})
    EXPECT_NEAR(static_cast<double>(e.first_of(t + e.difference(t)) - t), 0, 2);
}

TEST(Clocks, MismatchedPairDoesNotAffectBounds) {
  std::mt19937_64 random(4);
  const Clocks clocks{0, 10};
  auto all = points(random, clocks, 2000, 5 * second, 2'000);
  // A packet that is matched with its retransmission seems to arrive before it was sent.
  all.push_back(point(clocks, origin + second, -500'000, Bound::above));
  const ClockEstimate e = estimate(all, 1);
  EXPECT_EQ(e.unsteady, 0);
  EXPECT_LE(*e.low, clocks.difference(e.at));
  EXPECT_GE(*e.high, clocks.difference(e.at));
}

TEST(Clocks, ClockStepIsReportedAsUnsteady) {
  std::mt19937_64 random(5);
  auto all = points(random, {0, 0}, 2000, second, 1'000);
  for (ClockPoint p : points(random, {5'000'000, 0}, 2000, second, 1'000)) {
    p.first += 2 * second;
    p.second += 2 * second;
    all.push_back(p);
  }
  for (ClockPoint p : points(random, {0, 0}, 2000, second, 1'000)) {
    p.first += 4 * second;
    p.second += 4 * second;
    all.push_back(p);
  }
  const ClockEstimate e = estimate(all, 1);
  EXPECT_GT(e.unsteady, 1'000'000);
  EXPECT_LE(*e.low, 0);
  EXPECT_GE(*e.high, 5'000'000 - 2 * e.unsteady);
}

TEST(Clocks, NoBoundsWithoutSamples) {
  const ClockEstimate none = estimate({}, 1);
  EXPECT_FALSE(none.low);
  EXPECT_FALSE(none.high);
  const ClockEstimate one = estimate({{origin, origin + 7, Bound::above}}, 1000);
  EXPECT_EQ(one.high, 7 + 1000);
  EXPECT_FALSE(one.low);
  const ClockEstimate unordered = estimate({{origin, origin + 7, Bound::unknown}}, 1);
  EXPECT_EQ(unordered.offset, 7);
  EXPECT_FALSE(unordered.high);
  EXPECT_EQ(unordered.unknown, 1U);
}

TEST(Clocks, AcceptsExtremeTimes) {
  std::vector<ClockPoint> all;
  for (int i = 0; i < 100; ++i) all.push_back({origin, i % 2 ? 0 : origin * 2, i % 3 ? Bound::above : Bound::below});
  const ClockEstimate e = estimate(all, 1);
  EXPECT_LE(*e.low, *e.high);
  static_cast<void>(e.first_of(origin));
}

}  // namespace
}  // namespace rdmawire::captures::vantage
