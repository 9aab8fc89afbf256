#pragma once
/// What a check found, as one JSON object and as text for a terminal. docs/check.md names the keys,
/// docs/check.schema.json describes them.

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
  bool coverage = false;             ///< every rule that was exercised, with its counts
  bool quiet = false;                ///< violations alone, one line each
  std::size_t most_violations = 50;  ///< shown whole
};
std::string text_of(const Json& report, const CheckTextOptions& options = {});

}  // namespace rdmawire::conformance
