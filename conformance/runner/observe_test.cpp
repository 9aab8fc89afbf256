#include "conformance/runner/observe.hpp"

#include <gtest/gtest.h>

#include <algorithm>

#include "conformance/runner/run.hpp"
#include "conformance/runner/target.hpp"

namespace rdmawire::conformance {
namespace {

constexpr std::uint64_t seed = 20261121;

const Case& find_case(std::string_view id) {
  const auto all = cases();
  const auto found = std::find_if(all.begin(), all.end(), [&](const Case& which) { return which.id() == id; });
  EXPECT_NE(found, all.end()) << id;
  return *found;
}

CaseResult run(const Case& which, const std::vector<std::string>& faults = {}) {
  const auto target = Target::open({.device = "reference", .seed = seed, .faults = faults});
  EXPECT_TRUE(target);
  return run_case(which, (*target)->device(), seed);
}

std::string words(const Violation& violation) {
  return std::string(violation.of().alias) + " at frame " + std::to_string(violation.place.frame) + ": expected " +
         violation.statement.expected + "; got " + violation.statement.actual;
}

/// What the reference device is known to do wrong: the case of the rule sees it too.
bool is_known(const Violation& violation) { return violation.of().alias == "CNP-002"; }

TEST(Observe, NothingIsSaidAgainstADeviceThatBreaksNoRule) {
  Observation all;
  for (const Case& which : cases()) {
    const CaseResult result = run(which);
    all.add(result.observed);
    for (const Violation& violation : result.observed.violations)
      EXPECT_TRUE(is_known(violation)) << which.id() << ": " << words(violation);
  }
  const auto held = std::count_if(all.tallies.begin(), all.tallies.end(), [](const auto& t) { return t.second.holds; });
  EXPECT_GT(held, 50);
}

TEST(Observe, NorWhereTheWireMayHaveLostFrames) {
  for (const Case& which : cases())
    for (const Violation& violation : observe(run(which).transcript, std::nullopt).violations)
      EXPECT_TRUE(is_known(violation)) << which.id() << ": " << words(violation);
}

TEST(Observe, ADeviceThatBreaksOneIsSeen) {
  const CaseResult result = run(find_case("rc.responder.ack.in-order/SEND"), {"acknowledges-twice"});
  ASSERT_FALSE(result.observed.violations.empty());
  EXPECT_EQ(result.observed.violations.front().of().alias, "RSP-003");
  EXPECT_EQ(result.observed.tallies.at(RuleId("rc.responder.ack.asked-for-once").index()).violated,
            result.observed.violations.front().count);
}

TEST(Observe, TheTesterIsNotJudged) {
  // It leaves out a PSN, and the device says so.
  const CaseResult result = run(find_case("rc.responder.psn.sequence-error"));
  EXPECT_TRUE(result.observed.violations.empty());
  EXPECT_FALSE(result.observed.tallies.contains(RuleId("rc.requester.psn.increments").index()));
  EXPECT_GT(result.observed.tallies.at(RuleId("rc.responder.psn.sequence-error").index()).holds, 0U);
}

}  // namespace
}  // namespace rdmawire::conformance
