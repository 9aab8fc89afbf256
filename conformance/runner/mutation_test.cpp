#include "conformance/runner/mutation.hpp"

#include <gtest/gtest.h>

#include "conformance/runner/run.hpp"
#include "conformance/runner/target.hpp"

namespace rdmawire::conformance {
namespace {

constexpr std::uint64_t seed = 20261121;

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
