#include "conformance/runner/mutation.hpp"

#include <gtest/gtest.h>

#include <algorithm>

#include "conformance/runner/run.hpp"
#include "conformance/runner/target.hpp"

namespace rdmawire::conformance {
namespace {

constexpr std::uint64_t seed = 20261121;

/// What is known to be wrong, with the reason: of the device or of the cases.
struct Open {
  std::string_view id;
  std::string_view reason;
};
constexpr Open open_cases[] = {
    {"uc.responder.length.receive-too-small/shared queue", "it completes nothing of a shared queue for it"},
    {"ud.verbs.qkey.privileged-restricted", "inconclusive: nobody tells the tester what its agent may do"},
};
constexpr Open open_faults[] = {
    {"anyone-privileged", "the case is inconclusive either way: it does not know the agent's privileges"},
};

bool is_open(std::span<const Open> list, std::string_view id) {
  return std::any_of(list.begin(), list.end(), [&](const Open& open) { return open.id == id; });
}

TEST(ReferenceDevice, PassesEverything) {
  for (const Case& which : cases()) {
    if (is_open(open_cases, which.id())) continue;
    const auto target = Target::open({.device = "reference", .seed = seed});
    ASSERT_TRUE(target);
    const CaseResult result = run_case(which, (*target)->device(), seed);
    EXPECT_TRUE(result.judgement.verdict == Verdict::pass || result.judgement.verdict == Verdict::may ||
                result.judgement.verdict == Verdict::unsupported)
        << which.id() << ": " << to_string(result.judgement.verdict) << ": expected " << result.judgement.expected
        << "; got " << result.judgement.actual;
  }
}

TEST(SeededFaults, AreCaughtByTheCasesMeantForThemOrByMonitors) {
  const auto mutations = mutate_all(Breadth::meant, seed, 2);
  for (const Mutation& mutation : mutations) {
    EXPECT_EQ(mutation.missed(), is_open(open_faults, mutation.fault->name))
        << mutation.fault->name << ": " << mutation.fault->sentence;
    EXPECT_EQ(mutation.unseen(), !device::notes_of(mutation.fault->fault).unseen.empty())
        << mutation.fault->name << ": whether monitors see it";
  }
  std::printf("%s", table_of(mutations).c_str());
}

}  // namespace
}  // namespace rdmawire::conformance
