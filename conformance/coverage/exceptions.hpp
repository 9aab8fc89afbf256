#pragma once
/// Exceptions with their reasons: rules without a case, cases that the reference devices do not pass, cases that detect
/// no fault of their rule, and monitors that detect no violation or no fault. Tests fail if an exception is missing or
/// no longer needed.

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

/// A case that passes with each injected fault that violates its rule.
struct UndetectingCase {
  std::string_view id;
  std::string_view fault;   ///< a fault of another rule that makes the case fail. Empty: none
  std::string_view reason;  ///< one sentence. May be empty if `fault` is not
};
std::span<const UndetectingCase> undetecting_cases();
/// Returns the fault, if there is one, and the reason, as text for the generated pages.
std::string reason_of(const UndetectingCase& one);

/// A monitor that can only report that its rule is met, not a violation (see `only_seen_kept`).
struct UndetectingMonitor {
  RuleId rule;
  std::string_view reason;  ///< one sentence
};
std::span<const UndetectingMonitor> undetecting_monitors();

/// A monitor that can report violations, but reports none for the faults of the reference devices.
struct MonitorWithoutFault {
  RuleId rule;
  std::string_view reason;  ///< one sentence
};
std::span<const MonitorWithoutFault> monitors_without_fault();

}  // namespace rdmawire::conformance
