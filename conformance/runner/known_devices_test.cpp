/// The built-in known results of the lab's devices, compared with the history of the kernel.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <sstream>

#include "conformance/runner/expected.hpp"
#include "source_directory.hpp"

namespace rdmawire::conformance {
namespace {

constexpr const char* today = "2026-11-21";

ExpectedResults known_of(const std::string& device) {
  auto known = ExpectedResults::of_device(device);
  EXPECT_TRUE(known) << device;
  return known ? std::move(*known) : ExpectedResults();
}

const Case& case_of(std::string_view id) {
  for (const Case& which : cases())
    if (which.id() == id) return which;
  ADD_FAILURE() << "unknown case " << id;
  return cases().front();
}

/// The expected verdict of the case: "pass" if it has no known result.
std::string verdict_of_case(const ExpectedResults& known, const Case& which) {
  const Known* found = known.find(which, today);
  return found ? std::string(to_string(found->verdict)) : "pass";
}

TEST(KnownDevices, AreTheLabDevices) {
  EXPECT_THAT(ExpectedResults::devices(), testing::ElementsAre("rxe-6.1", "rxe-7.2", "siw-6.1", "siw-7.2"));
  EXPECT_FALSE(ExpectedResults::of_device("rxe-2.6"));
}

TEST(KnownDevices, EachResultHasReasonEvidenceAndConformingParty) {
  std::ifstream file(RDMAWIRE_SOURCE_DIR "/docs/reference/known-deviations.md");
  std::ostringstream page;
  page << file.rdbuf();
  ASSERT_FALSE(page.str().empty());
  for (const std::string& device : ExpectedResults::devices()) {
    const ExpectedResults known = known_of(device);
    EXPECT_GT(known.size(), 40U);
    for (const Case& which : cases()) {
      const Known* found = known.find(which, today);
      if (!found) continue;
      EXPECT_NE(found->verdict, Verdict::pass) << which.id();
      EXPECT_FALSE(found->reason.empty() || found->evidence.empty()) << device << ": " << which.id();
      EXPECT_THAT(found->right, testing::AnyOf("specification", "unclear")) << device << ": " << which.id();
      EXPECT_TRUE(found->until.empty()) << device << ": " << which.id();
      EXPECT_NE(page.str().find("`" + std::string(which.rule->id) + "`"), std::string::npos)
          << device << ": docs/reference/known-deviations.md does not describe " << which.rule->id;
    }
    // A key without a case would hide that a known violation is no longer tested.
    for (std::string key : known.keys()) {
      if (constexpr std::string_view observed = "/as observed"; key.ends_with(observed)) {
        // Monitors check every case, so the rule needs no case of its own.
        key.resize(key.size() - observed.size());
        const Rule* rule = find_rule(key);
        ASSERT_TRUE(rule) << device << ": " << key;
        EXPECT_NE(page.str().find("`" + std::string(rule->id) + "`: as observed by monitors"), std::string::npos)
            << device << ": docs/reference/known-deviations.md does not describe " << rule->id;
        continue;
      }
      const bool has_case = std::any_of(cases().begin(), cases().end(), [&](const Case& which) {
        return which.id() == key || which.rule->id == key || which.rule->alias == key;
      });
      EXPECT_TRUE(has_case) << device << ": " << key;
    }
  }
}

/// A change of rxe between 6.1.192 and 7.2.13 (Debian), and the case whose verdict it changes.
struct Flip {
  std::string_view patch;
  std::string_view id;
  std::string_view before, after;
};
constexpr Flip flips[] = {
    {"Implement packet length validation on responder, 2022-11", "rc.responder.length.first-or-middle/short SEND First",
     "fail", "pass"},
    {"the same", "rc.responder.length.only/SEND", "fail", "pass"},
    {"the same", "rc.responder.length.last/empty SEND", "fail", "pass"},
    {"the same", "rc.responder.length.above-maximum/READ", "fail-wrong-code", "pass"},
    {"Handle remote errors in the midst of a Read reply sequence, 2022-10", "rc.requester.read.error-between-responses",
     "fail", "pass"},
    {"Send last wqe reached event on qp cleanup, 2023-06", "rc.responder.state.last-wqe-reached/an error", "fail",
     "pass"},
    {"Fix responder length checking for UD request packets, 2024-05",
     "ud.receiver.length.receive-too-small/by one byte", "fail", "pass"},
    {"Generate async error for r_key violations, 2026-02", "rc.responder.access.asynchronous-event/key", "fail",
     "pass"},
    // Not yet in 7.2.13.
    {"Fix u64 iova-overflow family, 2026-05", "memory.verbs.window.bind-refused/address space wraps", "fail", "fail"},
    // Regressions in 7.2.
    {"one task for requester and completer", "qp.endpoint.reset.fresh-start", "pass", "fail"},
};

TEST(KnownDevices, VerdictsChangeWithKernelHistory) {
  const ExpectedResults before = known_of("rxe-6.1"), after = known_of("rxe-7.2");
  for (const Flip& flip : flips) {
    const Case& which = case_of(flip.id);
    EXPECT_EQ(verdict_of_case(before, which), flip.before) << flip.patch << ": " << flip.id;
    EXPECT_EQ(verdict_of_case(after, which), flip.after) << flip.patch << ": " << flip.id;
  }
}

}  // namespace
}  // namespace rdmawire::conformance
