#include "dissectors/tracking/ring.hpp"

#include <gtest/gtest.h>

#include <deque>
#include <random>

namespace rdmawire::tracking {
namespace {

TEST(Ring, KeepsItsMemory) {
  Ring<int> ring;
  EXPECT_EQ(ring.bytes(), 0U);
  for (int i = 0; i < 100; ++i) ring.push_back(i);
  const std::size_t bytes = ring.bytes();
  EXPECT_EQ(bytes, 128 * sizeof(int));
  while (!ring.empty()) ring.pop_front();
  for (int i = 0; i < 1000; ++i) {
    ring.push_back(i);
    ring.push_back(-i);
    EXPECT_EQ(ring.front(), i);
    ring.pop_front();
    ring.pop_front();
  }
  EXPECT_EQ(ring.bytes(), bytes);
}

// push() accepts an item of the ring itself, so it must copy the item before the ring grows.
TEST(Ring, PushOfItsOwnItem) {
  Ring<int> ring;
  for (int i = 7; i < 11; ++i) ring.push_back(i);
  ring.push_back(ring.front());
  EXPECT_EQ(ring.back(), 7);
}

TEST(Ring, Moved) {
  Ring<int> ring;
  for (int i = 0; i < 9; ++i) ring.push_back(i);
  Ring<int> other = std::move(ring);
  EXPECT_EQ(other.size(), 9U);
  EXPECT_TRUE(ring.empty());  // NOLINT(bugprone-use-after-move): empty and usable
  EXPECT_EQ(ring.bytes(), 0U);
  ring.push_back(5);
  EXPECT_EQ(ring.front(), 5);
  EXPECT_EQ(other.back(), 8);
}

// Random operations must leave the same contents in a ring and in a std::deque.
TEST(Ring, MatchesDeque) {
  for (unsigned seed = 0; seed < 200; ++seed) {
    std::mt19937 random(seed);
    Ring<unsigned> ring;
    std::deque<unsigned> deque;
    for (unsigned step = 0; step < 400; ++step) {
      const unsigned what = random() % 16;
      if (what < 7 || deque.empty()) {
        ring.push_back(step);
        deque.push_back(step);
      } else if (what < 11) {
        ring.pop_front();
        deque.pop_front();
      } else if (what < 13) {
        const std::size_t at = random() % (deque.size() + 1);
        ring.insert(at, step);
        deque.insert(deque.begin() + static_cast<std::ptrdiff_t>(at), step);
      } else if (what < 15) {
        const std::size_t at = random() % deque.size();
        ring.erase(at);
        deque.erase(deque.begin() + static_cast<std::ptrdiff_t>(at));
      } else if (random() % 32 == 0) {
        ring.clear();
        deque.clear();
      }
      ASSERT_EQ(ring.size(), deque.size()) << "seed " << seed;
      ASSERT_EQ(ring.empty(), deque.empty());
      for (std::size_t i = 0; i < deque.size(); ++i)
        ASSERT_EQ(ring[i], deque[i]) << "seed " << seed << " step " << step;
      if (deque.empty()) continue;
      ASSERT_EQ(ring.front(), deque.front());
      ASSERT_EQ(ring.back(), deque.back());
    }
  }
}

TEST(Ring, FirstLargeItemNeedsMemoryForOneItem) {
  struct Large {
    char bytes[256] = {};
  };
  Ring<Large> large;
  EXPECT_EQ(large.bytes(), 0U);
  large.push_back({});
  EXPECT_EQ(large.bytes(), sizeof(Large));
  large.pop_front();
  large.push_back({});
  EXPECT_EQ(large.bytes(), sizeof(Large));
  large.insert(0, {});
  EXPECT_EQ(large.bytes(), 2 * sizeof(Large));
}

}  // namespace
}  // namespace rdmawire::tracking
