#include "conformance/runner/mutation.hpp"

#include <gtest/gtest.h>

#include <algorithm>

#include "conformance/runner/run.hpp"
#include "conformance/runner/target.hpp"

namespace rdmawire::conformance {
namespace {

constexpr std::uint64_t seed = 20261121;

/// A fault that no case catches, with the reason.
struct Open {
  std::string_view id;
  std::string_view reason;
};
constexpr Open open_faults[] = {
    {"paces-by-port", "the case reports, and judges nothing"},
    {"cnp-for-loss", "the case reports, and judges nothing"},
};

bool is_open(std::span<const Open> list, std::string_view id) {
  return std::any_of(list.begin(), list.end(), [&](const Open& open) { return open.id == id; });
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
    EXPECT_EQ(mutation.missed(), is_open(open_faults, mutation.fault->name))
        << mutation.fault->name << ": " << mutation.fault->sentence;
  std::printf("%s", table_of(mutations).c_str());
}

}  // namespace
}  // namespace rdmawire::conformance
