#pragma once
/// Reports the result of a check as one JSON object, and as text for a terminal. docs/reference/check-report.md
/// describes the keys. The schema is docs/reference/schemas/check.schema.json.

#include <cstddef>
#include <nlohmann/json.hpp>
#include <string>

#include "conformance/monitors/run.hpp"

namespace rdmawire::conformance {

using Json = nlohmann::ordered_json;

Json report_of(const CheckResult& result);

struct CheckTextOptions {
  std::size_t width = 100;
  bool colors = false;
  bool coverage = false;             ///< list every exercised rule with its counters
  bool quiet = false;                ///< print only violations, one line each
  std::size_t most_violations = 50;  ///< maximum number of violations with details
};
std::string text_of(const Json& report, const CheckTextOptions& options = {});

}  // namespace rdmawire::conformance
