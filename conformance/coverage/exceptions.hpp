#pragma once
/// Rules without a case, cases that the reference devices do not pass, cases that fail under no fault of their rule,
/// and monitors that cannot detect a violation, each with its reason. Tests fail for every exception that is missing
/// here, and for every one that is no longer needed.

#include <span>
#include <string>
#include <string_view>

#include "conformance/cases/verdict.hpp"
#include "conformance/rules/rules.hpp"

namespace rdmawire::conformance {

/// A rule of mode active or both without a case.
struct WithoutCase {
  RuleId rule;
  std::string_view reason;  ///< one sentence
};
std::span<const WithoutCase> without_case();

/// A case that the reference devices end with another verdict than pass.
struct NotPassed {
  std::string_view id;
  Verdict verdict;
  std::string_view reason;  ///< one sentence
};
std::span<const NotPassed> not_passed();

/// A case that passes under every fault that violates its rule.
struct UndetectingCase {
  std::string_view id;
  std::string_view fault;   ///< a fault of another rule under which the case fails. Empty: none
  std::string_view reason;  ///< one sentence. May be empty if there is such a fault
};
std::span<const UndetectingCase> undetecting_cases();
/// Returns the text of the pages: the fault, if there is one, and the reason.
std::string reason_of(const UndetectingCase& one);

/// A monitor that can only confirm its rule, see `only_seen_kept`.
struct UndetectingMonitor {
  RuleId rule;
  std::string_view reason;  ///< one sentence
};
std::span<const UndetectingMonitor> undetecting_monitors();

/// A monitor that detects violations, but none that a fault of the reference devices causes.
struct MonitorWithoutFault {
  RuleId rule;
  std::string_view reason;  ///< one sentence
};
std::span<const MonitorWithoutFault> monitors_without_fault();

}  // namespace rdmawire::conformance
