#include "conformance/runner/mutation.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <set>
#include <sstream>
#include <string>

#include "conformance/coverage/exceptions.hpp"
#include "conformance/monitors/monitored.hpp"
#include "conformance/runner/run.hpp"
#include "conformance/runner/target.hpp"
#include "source_directory.hpp"

namespace rdmawire::conformance {
namespace {

constexpr std::uint64_t seed = 20261121;

TEST(Cases, EveryActiveRuleHasACase) {
  for (const Rule& rule : rules) {
    if (rule.mode == Mode::passive || rule.mode == Mode::unit) continue;
    const bool excepted = std::ranges::any_of(without_case(), [&](const auto& one) { return one.rule->id == rule.id; });
    EXPECT_EQ(std::ranges::any_of(cases(), [&](const Case& which) { return which.rule->id == rule.id; }), !excepted)
        << rule.id;
  }
  for (const WithoutCase& one : without_case()) EXPECT_TRUE(one.reason.ends_with('.')) << one.rule->id;
}

TEST(Cases, IdsAreUnique) {
  std::set<std::string> ids;
  for (const Case& which : cases()) EXPECT_TRUE(ids.insert(which.id()).second) << which.id();
}

CaseResult run(const Case& which, const std::vector<std::string>& faults = {}) {
  const auto target = Target::open({.family = which.family(), .seed = seed, .faults = faults});
  EXPECT_TRUE(target);
  return run_case(which, (*target)->device(), seed);
}

// Another verdict than pass needs a documented reason.
TEST(ReferenceDevice, PassesAllCases) {
  const auto exceptions = not_passed();
  for (const Case& which : cases()) {
    const CaseResult result = run(which);
    const auto exception = std::ranges::find(exceptions, which.id(), &NotPassed::id);
    const Verdict expected = exception == exceptions.end() ? Verdict::pass : exception->verdict;
    EXPECT_EQ(result.judgment.verdict, expected)
        << which.id() << ": " << to_string(result.judgment.verdict) << ": expected " << result.judgment.expected
        << "; got " << result.judgment.actual;
    EXPECT_TRUE(result.wire.empty()) << which.id() << ": " << result.wire.front().rule->id << ": expected "
                                     << result.wire.front().expected << "; got " << result.wire.front().actual;
  }
  for (const NotPassed& exception : exceptions)
    EXPECT_TRUE(find_case(exception.id) && exception.reason.ends_with('.')) << exception.id;
}

// ---- frames of the device as part of the verdict

TEST(Frames, InvalidFrameFailsEveryCaseUnderItsRule) {
  struct Row {
    const char* fault;
    const char* case_id;
    const char* rule;
  };
  for (const Row& row : {
           Row{"icrc-covers-ttl", "rc.responder.psn.sequence-error", "roce.sender.icrc.over-ipv4"},
           Row{"icrc-covers-ttl", "rc.requester.retry.go-back-n/last packet lost", "roce.sender.icrc.over-ipv4"},
           Row{"sends-reserved-bits", "rc.responder.psn.sequence-error", "bth.sender.reserved.zero"},
           Row{"wrong-ip-checksum", "rc.responder.psn.sequence-error", "roce.sender.ipv4.header-checksum"},
           Row{"sends-udp-checksum", "rc.responder.psn.sequence-error", "roce.sender.udp.checksum-right-if-set"},
           Row{"sends-header-version-1", "rc.responder.psn.sequence-error", "bth.sender.version.zero"},
           Row{"sends-other-pkey", "rc.responder.psn.sequence-error", "bth.sender.pkey.of-queue-pair"},
           Row{"wrong-udp-port", "rc.responder.psn.sequence-error", "roce.sender.udp.destination-port"},
           Row{"wrong-ip-protocol", "rc.responder.psn.sequence-error", "roce.sender.ip.protocol-is-udp"},
           Row{"addresses-next-queue-pair", "rc.responder.psn.sequence-error", "bth.sender.qpn.of-connection"},
       }) {
    const Case* which = find_case(row.case_id);
    ASSERT_NE(which, nullptr) << row.case_id;
    const CaseResult result = run(*which, {row.fault});
    EXPECT_EQ(result.judgment.verdict, Verdict::fail) << row.fault;
    ASSERT_NE(result.judgment.rule, nullptr) << row.fault;
    EXPECT_EQ(result.judgment.rule->id, row.rule) << row.fault;
    ASSERT_FALSE(result.wire.empty()) << row.fault;
  }
}

TEST(Frames, OwnFailureOfTheCaseIsKept) {
  const CaseResult result =
      run(*find_case("rc.responder.psn.sequence-error"), {"naks-every-packet", "icrc-covers-ttl"});
  EXPECT_EQ(result.judgment.verdict, Verdict::fail);
  EXPECT_EQ(result.judgment.rule, nullptr);
  ASSERT_EQ(result.wire.size(), 1U);
  EXPECT_EQ(result.wire.front().rule->id, "roce.sender.icrc.over-ipv4");
}

// A monitor that cannot detect a violation needs a documented reason.
TEST(Monitors, EachWithoutDetectionHasAReason) {
  std::set<std::string_view> explained;
  for (const UndetectingMonitor& exception : undetecting_monitors()) {
    EXPECT_TRUE(only_positive(exception.rule)) << exception.rule->id << " is not in only_seen_kept";
    EXPECT_TRUE(exception.reason.ends_with('.')) << exception.rule->id;
    explained.insert(exception.rule->id);
  }
  for (const RuleId rule : only_seen_kept) EXPECT_TRUE(explained.contains(rule->id)) << rule->id << " has no reason";
}

// RDMAWIRE_FAULTS="NAME NAME" selects faults.
TEST(SeededFaults, CasesAndMonitorsDetectEachFault) {
  const char* selected = std::getenv("RDMAWIRE_FAULTS");
  std::istringstream words{selected ? selected : ""};
  const std::vector<std::string> names{std::istream_iterator<std::string>(words), {}};
  const auto mutations = mutate_all(Breadth::meant, seed, 2, {}, names);
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
