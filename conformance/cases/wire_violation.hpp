#pragma once
/// A rule for every frame that the device sends, violated in a case that need not be about this rule.

#include <cstdint>
#include <string>

#include "conformance/rules/rules.hpp"

namespace rdmawire::conformance {

struct WireViolation {
  RuleId rule;
  std::string expected;  ///< in the first frame with this violation
  std::string actual;
  /// The frame reaches no receiver, for example because of its UDP port. It explains why the case misses a frame.
  bool lost = false;
  std::uint64_t count = 1;  ///< frames with this violation

  friend bool operator==(const WireViolation&, const WireViolation&) = default;
};

}  // namespace rdmawire::conformance
