#include "dissectors/machines/congestion.hpp"

#include <gtest/gtest.h>

namespace rdmawire::machines {
namespace {

constexpr ReactionSettings settings{.line = 1'000'000'000,
                                    .least = 10'000'000,
                                    .interval = 50'000,
                                    .fall_interval = 4'000,
                                    .fast_recovery_steps = 5,
                                    .additive = 100'000'000};

TEST(NotificationPoint, OneCnpPerInterval) {
  NotificationPoint at;
  EXPECT_TRUE(at.notifies(1000));
  at = NotificationPoint::notified(1000, 50'000);
  EXPECT_FALSE(at.notifies(1001));
  EXPECT_FALSE(at.notifies(50'999));
  EXPECT_TRUE(at.notifies(51'000));
}

TEST(ReactionPoint, HalvesAndRecovers) {
  ReactionPoint at;
  EXPECT_FALSE(at.is_limited());
  EXPECT_EQ(spacing(at, 1000), 0);
  at = notified(at, 0, settings);
  EXPECT_EQ(at.rate, 500'000'000U);
  EXPECT_EQ(spacing(at, 1000), 16'000);  // 1000 bytes, which are 8000 bits
  // A CNP shortly after a decrease has no effect.
  EXPECT_EQ(notified(at, 3'999, settings), at);
  const ReactionPoint twice = notified(at, 4'000, settings);
  EXPECT_EQ(twice.rate, 250'000'000U);
  // The rate does not change before the end of the interval. Then it recovers half of the decrease.
  EXPECT_EQ(passed(at, 49'999, settings), at);
  EXPECT_EQ(passed(at, 50'000, settings).rate, 750'000'000U);
  EXPECT_EQ(passed(at, 100'000, settings).rate, 875'000'000U);
  EXPECT_FALSE(passed(at, 10'000'000, settings).is_limited());
}

TEST(ReactionPoint, KeepsTheMinimumRate) {
  ReactionPoint at;
  for (int i = 0; i < 100; ++i) at = notified(at, i * 4'000, settings);
  EXPECT_EQ(at.rate, 10'000'000U);
  EXPECT_FALSE(passed(at, 1'000'000'000, settings).is_limited());
}

}  // namespace
}  // namespace rdmawire::machines
