#pragma once
/// Describes rules as text, JSON and Markdown.

#include <span>
#include <string>
#include <string_view>

#include "conformance/rules/rules.hpp"

namespace rdmawire::conformance {

/// Returns the description of one rule: id, alias, level, sentence, precondition, mode and clauses, in several lines.
std::string explain_rule(const Rule& rule, bool colors = false);
/// Returns a list of rules: for each, a line with alias, level, mode and id, and then the sentence.
std::string list_rules(std::span<const Rule* const> chosen, bool colors = false);
/// Returns one JSON object without line end:
/// {"kind":"rule","id","alias","level","mode","services","clauses","sentence", "stimulus","applies"}. Each of `clauses`
/// has "document", "number", "title", "verified", and "supplied" for a number of use_clause_numbers().
std::string rule_json(const Rule& rule);

/// Escapes text for a cell of a Markdown table.
std::string table_cell(std::string_view text);
/// Returns all rules in Markdown, by group: the content of docs/reference/rules.md.
std::string rules_page();

}  // namespace rdmawire::conformance
