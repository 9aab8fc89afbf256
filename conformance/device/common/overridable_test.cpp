#include "conformance/device/common/overridable.hpp"

#include <gmock/gmock.h>

namespace rdmawire::device {
namespace {

using Decision = Overridable<int(int)>;

int conforming(int value) { return value + 1; }

TEST(Overridable, CallsTheConformingFunctionWithoutOverrides) {
  const Decision decision = conforming;
  EXPECT_EQ(decision(1), 2);
}

TEST(Overridable, CallsTheOverrideInsteadOfTheConformingFunction) {
  Decision decision = conforming;
  decision.override_with([](const Decision::Next&, int) { return 7; });
  EXPECT_EQ(decision(1), 7);
}

TEST(Overridable, ChainsOverridesFromTheLastToTheConformingFunction) {
  Decision decision = conforming;
  decision.override_with([](const Decision::Next& next, int value) { return 10 * next(value); });
  decision.override_with([](const Decision::Next& next, int value) { return value == 0 ? -1 : next(value); });
  EXPECT_EQ(decision(0), -1);
  EXPECT_EQ(decision(1), 20);
}

TEST(Overridable, CopiesIncludeTheOverrides) {
  Decision decision = conforming;
  decision.override_with([](const Decision::Next&, int) { return 7; });
  const Decision copy = decision;
  EXPECT_EQ(copy(1), 7);
}

TEST(Overridable, PassesReferences) {
  const Overridable<void(int&)> decision(+[](int& value) { value = 1; });
  int value = 0;
  decision(value);
  EXPECT_EQ(value, 1);
}

}  // namespace
}  // namespace rdmawire::device
