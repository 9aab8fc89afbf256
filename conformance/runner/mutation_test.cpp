#include "conformance/runner/mutation.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <fstream>
#include <set>
#include <sstream>
#include <string>

#include "conformance/runner/run.hpp"
#include "conformance/runner/target.hpp"
#include "source_directory.hpp"

namespace rdmawire::conformance {
namespace {

constexpr std::uint64_t seed = 20261121;

TEST(Cases, EveryActiveRuleHasACase) {
  for (const Rule& rule : rules) {
    if (rule.mode == Mode::passive || rule.mode == Mode::unit) continue;
    if (rule.services == Services::iwarp) continue;
    EXPECT_TRUE(std::ranges::any_of(cases(), [&](const Case& which) { return which.rule->id == rule.id; })) << rule.id;
  }
}

TEST(Cases, IdsAreUnique) {
  std::set<std::string> ids;
  for (const Case& which : cases()) EXPECT_TRUE(ids.insert(which.id()).second) << which.id();
}

TEST(ReferenceDevice, PassesAllCases) {
  for (const Case& which : cases()) {
    const auto target = Target::open({.family = which.family(), .seed = seed});
    ASSERT_TRUE(target);
    const CaseResult result = run_case(which, (*target)->device(), seed);
    EXPECT_TRUE(result.judgment.verdict == Verdict::pass || result.judgment.verdict == Verdict::may ||
                result.judgment.verdict == Verdict::unsupported)
        << which.id() << ": " << to_string(result.judgment.verdict) << ": expected " << result.judgment.expected
        << "; got " << result.judgment.actual;
  }
}

TEST(SeededFaults, CasesAndMonitorsDetectEachFault) {
  const auto mutations = mutate_all(Breadth::meant, seed, 2);
  for (const Mutation& mutation : mutations) {
    EXPECT_FALSE(mutation.missed()) << mutation.fault->name << ": " << mutation.fault->sentence;
    EXPECT_TRUE(mutation.meant.empty() || !mutation.caught.empty())
        << mutation.fault->name << ": its cases do not detect it: " << mutation.fault->sentence;
    EXPECT_EQ(mutation.unseen(), !mutation.fault->unseen.empty())
        << mutation.fault->name << ": monitors detect it, or the table has a reason";
    const auto unrelated = mutation.unrelated();
    EXPECT_TRUE(unrelated.empty()) << mutation.fault->name << " is reported by " << *unrelated.begin();
  }
  std::printf("%s", table_of(mutations).c_str());
}

// Runs every case against every fault, and writes the page to the directory of the test.
TEST(SeededFaults, MatrixMatchesDocumentation) {
  if (!std::getenv("RDMAWIRE_WHOLE")) GTEST_SKIP() << "takes minutes; set RDMAWIRE_WHOLE=1 to run it";
  const auto mutations = mutate_all(Breadth::all, seed, 2);
  for (const Mutation& mutation : mutations)
    for (const std::string& rule : mutation.unrelated())
      ADD_FAILURE() << mutation.fault->name << " is reported by " << rule;
  const std::string made = document_of(mutations);
  std::ofstream(testing::TempDir() + "/mutations.md") << made;
  std::ifstream file(RDMAWIRE_SOURCE_DIR "/docs/reference/mutations.md");
  std::ostringstream page;
  page << file.rdbuf();
  EXPECT_TRUE(page.str() == made) << "outdated: rdmawire certify --mutations > docs/reference/mutations.md";
}

}  // namespace
}  // namespace rdmawire::conformance
