#pragma once
/// For tests only: returns the counters of a rule by id or alias.

#include <gtest/gtest.h>

#include <string_view>

#include "conformance/monitors/monitors.hpp"

namespace rdmawire::conformance::testing {

inline const ResultCounters& counts_of(Monitors& monitors, std::string_view rule) {
  const Rule* const found = find_rule(rule);
  EXPECT_NE(found, nullptr) << rule;
  return monitors.evaluator().counters()[static_cast<std::size_t>(found - rules.data())];
}

}  // namespace rdmawire::conformance::testing
