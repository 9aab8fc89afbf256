#include "dissectors/tracking/psn_window.hpp"

#include <gtest/gtest.h>

#include <map>
#include <random>

namespace rdmawire::tracking {
namespace {

struct Entry {
  std::uint32_t psn = 0;
  bool known = false;
  int value = 0;
};

TEST(PsnWindow, OnePacketNeedsOneEntry) {
  PsnWindow<Entry, 1024> window;
  EXPECT_EQ(window.find(7), nullptr);
  EXPECT_EQ(window.allocated(), 0U);
  window.add({0xffffff, true, 3});
  EXPECT_EQ(window.allocated(), 1U);
  ASSERT_NE(window.find(0xffffff), nullptr);
  EXPECT_EQ(window.find(0xffffff)->value, 3);
  EXPECT_EQ(window.find(0), nullptr);
}

// Compares the table with a model, which is a table of the full size.
TEST(PsnWindow, BehavesLikeTableOfFullSize) {
  constexpr std::uint32_t capacity = 64;
  std::mt19937 random(5);
  for (const std::uint32_t range : {1U, 2U, 40U, 64U, 65U, 500U, 1U << 24}) {
    PsnWindow<Entry, capacity> window;
    std::map<std::uint32_t, Entry> model;
    for (int i = 0; i < 2000; ++i) {
      const std::uint32_t psn = random() % range;
      window.add({psn, true, i});
      model[psn % capacity] = {psn, true, i};
      const std::uint32_t wanted = random() % range;
      const auto known = model.find(wanted % capacity);
      const bool expected = known != model.end() && known->second.psn == wanted;
      const Entry* const found = window.find(wanted);
      ASSERT_EQ(found != nullptr, expected);
      if (found) {
        ASSERT_EQ(found->value, known->second.value);
      }
    }
    EXPECT_LE(window.allocated(), capacity);
  }
}

}  // namespace
}  // namespace rdmawire::tracking
