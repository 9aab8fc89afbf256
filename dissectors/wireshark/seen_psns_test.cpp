// SPDX-License-Identifier: GPL-2.0-or-later
#include "dissectors/wireshark/seen_psns.hpp"

#include <gtest/gtest.h>

#include <random>
#include <set>

namespace rdmawire::wireshark {
namespace {

TEST(SeenPsns, RepeatedPsnsWereSeen) {
  SeenPsns seen;
  for (std::uint32_t psn = 5; psn < 10; ++psn) EXPECT_FALSE(seen.add(psn));
  EXPECT_EQ(seen.ranges(), 1U);
  for (std::uint32_t psn = 7; psn < 10; ++psn) EXPECT_TRUE(seen.add(psn));
  EXPECT_FALSE(seen.add(10));
}

TEST(SeenPsns, GapsAreNotSeenUntilTheyAreFilled) {
  SeenPsns seen;
  for (const std::uint32_t psn : {1U, 2U, 5U, 8U}) EXPECT_FALSE(seen.add(psn));
  EXPECT_EQ(seen.ranges(), 3U);
  EXPECT_FALSE(seen.add(4));
  EXPECT_FALSE(seen.add(3));
  EXPECT_EQ(seen.ranges(), 2U);
  for (const std::uint32_t psn : {1U, 2U, 3U, 4U, 5U, 8U}) EXPECT_TRUE(seen.add(psn)) << psn;
}

TEST(SeenPsns, PsnsWrap) {
  SeenPsns seen;
  for (const std::uint32_t psn : {0xfffffeU, 0xffffffU, 0U, 1U}) EXPECT_FALSE(seen.add(psn));
  EXPECT_EQ(seen.ranges(), 1U);
  for (const std::uint32_t psn : {0xfffffeU, 0xffffffU, 0U, 1U}) EXPECT_TRUE(seen.add(psn));
  EXPECT_FALSE(seen.add(0xfffffd));
}

TEST(SeenPsns, PsnsOfThePreviousRoundAreNew) {
  SeenPsns seen;
  for (std::uint32_t round = 0; round < 2; ++round)
    for (std::uint32_t psn = 0; psn <= 0xffffff; ++psn) ASSERT_FALSE(seen.add(psn)) << round << " " << psn;
  EXPECT_EQ(seen.ranges(), 1U);
  EXPECT_TRUE(seen.add(0xffffff - 1000));
}

TEST(SeenPsns, MemoryIsBounded) {
  SeenPsns seen;
  for (std::uint32_t psn = 0; psn < 100'000; psn += 2) seen.add(psn);
  EXPECT_EQ(seen.ranges(), SeenPsns::max_ranges);
}

TEST(SeenPsns, EqualsASetForRandomPsns) {
  std::mt19937 random(1);
  for (unsigned round = 0; round < 50; ++round) {
    SeenPsns seen;
    std::set<std::uint32_t> model;
    const std::uint32_t base = random() & 0xffffff;
    for (unsigned i = 0; i < 300; ++i) {
      const std::uint32_t psn = (base + random() % 200) & 0xffffff;
      EXPECT_EQ(seen.add(psn), !model.insert(psn).second);
    }
  }
}

}  // namespace
}  // namespace rdmawire::wireshark
