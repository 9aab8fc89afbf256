#include "conformance/rules/rules.hpp"

#include <gtest/gtest.h>

namespace rdmawire::conformance {
namespace {

TEST(Rules, AreFoundByIdAndByAlias) {
  constexpr RuleId rule = "rc.responder.psn.sequence-error";
  EXPECT_EQ(rule->alias, "RSP-009");
  EXPECT_EQ(find_rule("RSP-009"), &*rule);
  EXPECT_EQ(find_rule("RSP-9"), nullptr);
}

}  // namespace
}  // namespace rdmawire::conformance
