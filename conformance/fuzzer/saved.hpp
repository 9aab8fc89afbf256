#pragma once
/// Saved state of a session in the corpus's session.json: statistics and findings.

#include <nlohmann/json.hpp>
#include <string>
#include <tl/expected.hpp>

#include "conformance/fuzzer/session.hpp"

namespace rdmawire::fuzzer {

/// Save statistics without edges and corpus, which are counted again.
nlohmann::ordered_json saved(const Statistics& statistics);
/// Save a finding with both scripts, without frames, which replaying the script returns.
nlohmann::ordered_json saved(const Finding& finding);

/// Parse the file as an object. Errors: invalid JSON, no object, or nested too deeply.
tl::expected<nlohmann::json, std::string> parse_saved(const std::string& text);
/// Return the saved statistics. Missing counts are 0. The error names an invalid count.
tl::expected<Statistics, std::string> saved_statistics(const nlohmann::json& json);
/// Return a saved finding with scripts of `family`. The error names the missing or invalid member.
tl::expected<Finding, std::string> saved_finding(const nlohmann::json& json, Family family);

}  // namespace rdmawire::fuzzer
