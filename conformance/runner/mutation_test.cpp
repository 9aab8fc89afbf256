#include "conformance/runner/mutation.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <set>
#include <string>

#include "conformance/runner/run.hpp"
#include "conformance/runner/target.hpp"

namespace rdmawire::conformance {
namespace {

constexpr std::uint64_t seed = 20261121;

TEST(Cases, ThereIsOneForEachRuleThatCanBeProvoked) {
  for (const Rule& rule : rules) {
    if (rule.mode == Mode::passive || rule.mode == Mode::unit) continue;
    EXPECT_TRUE(std::ranges::any_of(cases(), [&](const Case& which) { return which.rule->id == rule.id; })) << rule.id;
  }
}

TEST(Cases, HaveNamesOfTheirOwn) {
  std::set<std::string> ids;
  for (const Case& which : cases()) EXPECT_TRUE(ids.insert(which.id()).second) << which.id();
}

TEST(ReferenceDevice, PassesEverything) {
  for (const Case& which : cases()) {
    const auto target = Target::open({.device = "reference", .seed = seed});
    ASSERT_TRUE(target);
    const CaseResult result = run_case(which, (*target)->device(), seed);
    EXPECT_TRUE(result.judgement.verdict == Verdict::pass || result.judgement.verdict == Verdict::may ||
                result.judgement.verdict == Verdict::unsupported)
        << which.id() << ": " << to_string(result.judgement.verdict) << ": expected " << result.judgement.expected
        << "; got " << result.judgement.actual;
  }
}

TEST(SeededFaults, AreCaughtByTheCasesMeantForThem) {
  std::vector<Mutation> mutations;
  for (const device::FaultRow& fault : device::fault_rows) mutations.push_back(mutate(fault, false, seed));
  for (const Mutation& mutation : mutations)
    EXPECT_FALSE(mutation.missed()) << mutation.fault->name << ": " << mutation.fault->sentence;
  std::printf("%s", table_of(mutations).c_str());
}

}  // namespace
}  // namespace rdmawire::conformance
