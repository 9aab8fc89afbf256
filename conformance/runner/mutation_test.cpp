#include "conformance/runner/mutation.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <sstream>

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
    {"wrong-ip-protocol", "the rule has no case; other cases wait for the frames in vain"},
    {"wrong-udp-port", "likewise"},
    {"extension-headers-reversed", "the rule has no case; those that read the headers notice"},
    {"low-source-port", "a range that is recommended, and judged by nobody"},
    {"credits-come-and-go", "legal, and judged by nobody"},
    {"asks-datagrams-acknowledged", "no case here makes the device send UC or UD: not examined yet"},
    {"retransmits-without-immediate", "no case makes the device send immediate data again"},
    {"completes-uc-late", "no case waits for completions of UC"},
    {"uc-psn-by-message", "no case makes the device send a UC message of several packets"},
    {"uc-delivers-long", "the case of the shared queue is open: not examined yet"},
    {"anyone-privileged", "the case is inconclusive either way: it does not know the agent's privileges"},
};

/// On the wire, and not seen by monitors.
constexpr Open open_sight[] = {
    {"asks-datagrams-acknowledged", "as above"},
    {"one-read-too-many", "judged when a READ is answered: not examined yet"},
    {"reset-keeps-psns", "not examined yet"},
    {"cm-psn-unheeded", "not examined yet"},
    {"stays-connected", "likewise"},
    {"cm-timeout-unheeded", "likewise"},
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
    EXPECT_TRUE(!mutation.missed() || is_open(open_faults, mutation.fault->name))
        << mutation.fault->name << ": " << mutation.fault->sentence;
    EXPECT_TRUE(!mutation.unseen() || !device::notes_of(mutation.fault->fault).unseen.empty() ||
                is_open(open_sight, mutation.fault->name))
        << mutation.fault->name << ": no monitor sees it";
  }
  std::printf("%s", table_of(mutations).c_str());
}

// Every case against every fault. The page is left in the tests' directory.
TEST(SeededFaults, AreWhatThePageSays) {
  if (!std::getenv("RDMAWIRE_WHOLE")) GTEST_SKIP() << "takes minutes: RDMAWIRE_WHOLE=1 asks for it";
  const std::string made = document_of(mutate_all(Breadth::all, seed, 2));
  std::ofstream(testing::TempDir() + "/mutations.md") << made;
  std::ifstream file(RDMAWIRE_SOURCE_DIR "/docs/mutations.md");
  std::ostringstream page;
  page << file.rdbuf();
  EXPECT_TRUE(page.str() == made) << "stale: rdmawire certify --mutations > docs/mutations.md";
}

}  // namespace
}  // namespace rdmawire::conformance
