#pragma once
/// A file with clause numbers, which a licensee of the InfiniBand specification completes: see
/// docs/how-to/complete-clause-numbers.md.

#include <filesystem>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <tl/expected.hpp>

#include "conformance/rules/clause_numbers.hpp"

namespace rdmawire::conformance {

/// Parses a file. The error contains `name`, line, rule and member: for an unknown rule, clause or member, a duplicate,
/// or a value of another form. Clauses without section, statement and table are absent from the result.
tl::expected<ClauseNumbers, std::string> parse_clause_file(const std::string& text, const std::string& name);
tl::expected<ClauseNumbers, std::string> read_clause_file(const std::filesystem::path& path);

/// The file with all clauses that lack a number. `known`: numbers to fill in.
nlohmann::ordered_json clause_file_template(const ClauseNumbers& known);

}  // namespace rdmawire::conformance
