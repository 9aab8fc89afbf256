#pragma once
/// The checks of each rule: cases, monitor, unit checks, and injected faults that violate it.

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "conformance/rules/rules.hpp"

namespace rdmawire::conformance {

/// A rule that a unit test of rdmawire checks.
struct UnitCheck {
  RuleId rule;
  std::string_view file;  ///< path in the repository
  std::string_view test;  ///< name in GoogleTest, such as "Icrc.SampleOfTheSpecification"
};
/// A rule without the check that its mode requires, and the reason.
struct LeftOut {
  RuleId rule;
  std::string_view reason;  ///< one sentence
};
std::span<const UnitCheck> unit_checks();
std::span<const LeftOut> left_out();

struct Coverage {
  const Rule* rule = nullptr;              ///< not nullptr
  std::vector<std::string> cases{};        ///< ids
  std::vector<std::string_view> faults{};  ///< names of faults of the reference devices
  bool monitor = false;
  const UnitCheck* unit = nullptr;
  const LeftOut* without = nullptr;

  /// Returns whether the rule has the check that its mode requires: a case (active), a monitor (passive), either of
  /// them (both), or a unit check (unit).
  [[nodiscard]] bool complete() const;
};

/// The coverage of every rule, in the order of `rules`.
std::vector<Coverage> coverage();

/// Returns one line for each rule that lacks a check and is not in left_out(), and for each rule in left_out() that has
/// all checks. Empty: there are none.
std::string gaps(std::span<const Coverage> all);

/// The coverage table in Markdown: docs/reference/coverage.md.
std::string coverage_page();

}  // namespace rdmawire::conformance
