#pragma once
/// The traceability matrix: clause, rule, case, parameters, verdict, frames.

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "conformance/report/report.hpp"

namespace rdmawire::conformance {

/// The number of frames in the capture of a case.
std::uint64_t frames_of(const CaseResult& result);
/// The frames of the capture that show a violation: those before a step of kind "violation", and those that monitors
/// report. In ascending order. The first frame is 1.
std::vector<std::uint64_t> evidence_of(const CaseResult& result);

/// The matrix as one JSON object: every rule with its clauses and cases, including rules without a result.
nlohmann::ordered_json traceability(const Report& report);
/// The same as CSV (RFC 4180), one row for each clause and case.
std::string traceability_csv(const Report& report);

}  // namespace rdmawire::conformance
