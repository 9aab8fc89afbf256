#pragma once
/// What a corpus's session.json keeps of a session beside its edges: its counts, and what it found.

#include <nlohmann/json.hpp>
#include <string>
#include <tl/expected.hpp>

#include "conformance/fuzzer/session.hpp"

namespace rdmawire::fuzzer {

/// Without edges and corpus, which are counted anew.
nlohmann::ordered_json saved(const Statistics& statistics);
/// With both of its scripts; without its frames, which another run of the script gives.
nlohmann::ordered_json saved(const Finding& finding);

/// The file's bytes as an object. An error: they are none, or one that is nested deeper than any that was saved.
tl::expected<nlohmann::json, std::string> parse_saved(const std::string& text);
/// What of the counts is there; the others are 0. An error: what is no count.
tl::expected<Statistics, std::string> saved_statistics(const nlohmann::json& json);
/// An error names what is missing, or wrong. The scripts are of that family.
tl::expected<Finding, std::string> saved_finding(const nlohmann::json& json, Family family);

}  // namespace rdmawire::fuzzer
