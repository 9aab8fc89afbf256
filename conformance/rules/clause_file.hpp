#pragma once
/// Files with clause numbers, which a licensee of the InfiniBand specification completes. See
/// docs/how-to/complete-clause-numbers.md.

#include <filesystem>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <tl/expected.hpp>

#include "conformance/rules/clause_numbers.hpp"

namespace rdmawire::conformance {

/// Parses a file. Fails if a rule, clause or member is unknown or duplicate, or if a value has an invalid form. The
/// error contains `name`, line, rule and member. Clauses without section, statement and table are not in the result.
tl::expected<ClauseNumbers, std::string> parse_clause_file(const std::string& text, const std::string& name);
tl::expected<ClauseNumbers, std::string> read_clause_file(const std::filesystem::path& path);

/// Returns a file with all clauses that lack a number, to be completed. `known`: numbers that are filled in.
nlohmann::ordered_json clause_file_template(const ClauseNumbers& known);

}  // namespace rdmawire::conformance
