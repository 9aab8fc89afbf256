/// Tests that no case and no monitor confirms a rule that it cannot refute: each case fails under a fault of the
/// reference device that violates its rule, and each monitor reports such a fault, or is listed with the reason.

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <map>
#include <set>
#include <string>

#include "conformance/coverage/exceptions.hpp"
#include "conformance/coverage/seeded_fault.hpp"
#include "conformance/monitors/monitored.hpp"
#include "conformance/runner/run.hpp"
#include "conformance/runner/target.hpp"

namespace rdmawire::conformance {
namespace {

constexpr std::uint64_t seed = 20261121;

CaseResult run_with(const Case& which, const std::string& fault) {
  TargetOptions options{.family = which.family(), .seed = seed};
  if (!fault.empty()) options.faults = {fault};
  const auto target = Target::open(options);
  EXPECT_TRUE(target) << fault;
  return run_case(which, (*target)->device(), seed);
}

bool violates(const SeededFault& fault, std::string_view rule) {
  return std::ranges::find(fault.broken, rule) != fault.broken.end();
}

/// True if the case fails and its rule is reported as violated. A case of a rule of Level::may, which never fails,
/// counts as failed if it reports another behavior than without the fault.
bool fails(const Case& which, const CaseResult& result) {
  if (result.judgment.rule && result.judgment.rule != &*which.rule) return false;
  if (is_failure(result.judgment.verdict)) return true;
  return which.rule->level == Level::may && result.judgment.verdict == Verdict::may &&
         run_with(which, "").judgment.verdict == Verdict::pass;
}

/// Returns a fault that violates the case's rule and under which the case fails, or nullptr.
const SeededFault* fault_of(const Case& which) {
  for (const SeededFault& fault : seeded_faults())
    if (fault.family == which.family() && violates(fault, which.rule->id) &&
        fails(which, run_with(which, std::string(fault.name))))
      return &fault;
  return nullptr;
}

TEST(Cases, EachFailsUnderAFaultOfItsRule) {
  std::map<std::string_view, const UndetectingCase*> exceptions;
  for (const UndetectingCase& one : undetecting_cases()) {
    EXPECT_TRUE(exceptions.emplace(one.id, &one).second) << one.id << " is listed twice";
    EXPECT_NE(find_case(one.id), nullptr) << one.id;
    EXPECT_TRUE(one.reason.ends_with('.') || (one.reason.empty() && !one.fault.empty())) << one.id << " has no reason";
  }
  std::size_t own = 0;
  for (const Case& which : cases()) {
    const std::string id = which.id();
    const auto exception = exceptions.find(id);
    const SeededFault* fault = fault_of(which);
    own += fault != nullptr;
    if (exception == exceptions.end()) {
      EXPECT_NE(fault, nullptr) << id << " passes under every fault that violates " << which.rule->id
                                << ": add a fault, or correct the case";
      continue;
    }
    EXPECT_EQ(fault, nullptr) << id << " is an exception, but fails under " << fault->name;
    const std::string other(exception->second->fault);
    if (other.empty()) continue;
    EXPECT_TRUE(is_failure(run_with(which, other).judgment.verdict)) << id << " passes under " << other;
  }
  std::printf("%zu of %zu cases fail under a fault of their rule\n", own, cases().size());
}

/// Returns whether the monitor of the rule reports a violation under the fault.
bool reports_violation(RuleId rule, const SeededFault& fault) {
  // The cases of the rule first: they send the packets that show the violation.
  for (const bool own : {true, false})
    for (const Case& which : cases()) {
      if (which.family() != fault.family || (&*which.rule == &*rule) != own) continue;
      const CaseResult result = run_with(which, std::string(fault.name));
      if (std::ranges::any_of(result.observed.violations, [&](const Violation& one) { return &one.of() == &*rule; }))
        return true;
    }
  return false;
}

// A fault that no packet shows has its reason in the table of faults, which
// SeededFaults.CasesAndMonitorsDetectEachFault checks.
TEST(Monitors, EachReportsAFaultOfItsRule) {
  std::set<std::string_view> exceptions;
  for (const MonitorWithoutFault& one : monitors_without_fault()) {
    EXPECT_TRUE(is_monitored(one.rule) && !only_positive(one.rule)) << one.rule->id;
    EXPECT_TRUE(one.reason.ends_with('.')) << one.rule->id;
    exceptions.insert(one.rule->id);
  }
  for (const RuleId rule : monitored) {
    if (only_positive(rule)) continue;
    if (rule->services == Services::mrc) continue;  // see conformance/device/mrc/exchange_test.cpp
    bool reported = false, explained = false;
    for (const SeededFault& fault : seeded_faults()) {
      if (reported || !violates(fault, rule->id)) continue;
      explained = explained || !fault.unseen.empty();
      reported = fault.on_the_wire && fault.unseen.empty() && reports_violation(rule, fault);
    }
    EXPECT_EQ(reported || explained, !exceptions.contains(rule->id)) << rule->id;
  }
}

}  // namespace
}  // namespace rdmawire::conformance
