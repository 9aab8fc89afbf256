#include "dissectors/tracking/cold.hpp"

#include <gtest/gtest.h>

#include <utility>

namespace rdmawire::tracking {
namespace {

struct Numbers {
  int first = 3, second = 0;
};

TEST(Cold, UnchangedValueIsTheDefaultAndNeedsNoMemory) {
  const Cold<Numbers> cold;
  EXPECT_EQ(cold->first, 3);
  EXPECT_EQ((*cold).second, 0);
  EXPECT_EQ(cold.bytes(), 0U);
  EXPECT_EQ(sizeof cold, sizeof(void*));
}

TEST(Cold, ChangeOfOneValueLeavesOthersUnchanged) {
  Cold<Numbers> changed;
  changed.edit().second = 7;
  changed.edit().first = 4;
  EXPECT_EQ(changed->first, 4);
  EXPECT_EQ(changed->second, 7);
  EXPECT_EQ(changed.bytes(), sizeof(Numbers));
  EXPECT_EQ(Cold<Numbers>()->second, 0);
}

TEST(Cold, CopyIsIndependent) {
  Cold<Numbers> original;
  original.edit().second = 7;
  Cold<Numbers> copy = original;
  copy.edit().second = 8;
  EXPECT_EQ(original->second, 7);
  original = copy;
  EXPECT_EQ(original->second, 8);
  copy = Cold<Numbers>();
  EXPECT_EQ(copy->second, 0);
  const Cold<Numbers> moved = std::move(original);
  EXPECT_EQ(moved->second, 8);
}

}  // namespace
}  // namespace rdmawire::tracking
