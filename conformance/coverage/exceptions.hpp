#pragma once
/// Rules without a case, cases that the reference devices do not pass, and monitors that cannot detect a violation,
/// each with its reason. Tests fail for every exception that is missing here, and for every one that is no longer
/// needed.

#include <span>
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

/// A monitor that can only confirm its rule, see `only_seen_kept`.
struct UndetectingMonitor {
  RuleId rule;
  std::string_view reason;  ///< one sentence
};
std::span<const UndetectingMonitor> undetecting_monitors();

}  // namespace rdmawire::conformance
