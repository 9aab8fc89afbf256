#pragma once
/// What of the suite is about each rule: its cases, its monitor, its unit checks, and the faults that break it.

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "conformance/rules/rules.hpp"

namespace rdmawire::conformance {

/// A test of the tester itself that holds a rule.
struct UnitCheck {
  RuleId rule;
  std::string_view file;  ///< from the repository's root
  std::string_view test;  ///< "Icrc.SpecificationsSamplePacket"
};
/// A rule that nothing can judge as its mode asks, and why.
struct LeftOut {
  RuleId rule;
  std::string_view reason;  ///< one sentence
};
std::span<const UnitCheck> unit_checks();
std::span<const LeftOut> left_out();

struct Coverage {
  const Rule* rule = nullptr;              ///< not nullptr
  std::vector<std::string> cases{};        ///< by id
  std::vector<std::string_view> faults{};  ///< of the reference device, by name
  bool monitor = false;
  const UnitCheck* unit = nullptr;
  const LeftOut* without = nullptr;

  /// A rule that is judged by a stimulus has a case, one that captures show a monitor, one of both kinds either, one
  /// of the tester a unit check.
  [[nodiscard]] bool complete() const;
};

/// Of every rule, in the order of `rules`.
std::vector<Coverage> coverage();

/// What must not be: a rule that is not complete and has no reason, or has one without need. A line each; empty: all is
/// well.
std::string gaps(std::span<const Coverage> all);

/// The table in Markdown: docs/coverage.md.
std::string coverage_page();

}  // namespace rdmawire::conformance
