#pragma once
/// Rules as text, JSON and Markdown.

#include <span>
#include <string>
#include <string_view>

#include "conformance/rules/rules.hpp"

namespace rdmawire::conformance {

/// One rule: id, alias, level, what must hold, when, how it is judged, its clauses. Several lines.
std::string explain_rule(const Rule& rule, bool colors = false);
/// A line each: alias, level, how it is judged, id, and what must hold below.
std::string list_rules(std::span<const Rule* const> chosen, bool colors = false);
/// One JSON object, without line end: {"kind":"rule","id","alias","level","mode","services","clauses","sentence",
/// "stimulus","applies"}. Each of `clauses` has "document", "number", "title", "verified".
std::string rule_json(const Rule& rule);

/// Text for a cell of a table in Markdown: what would end it, or begin an element, is written otherwise.
std::string table_cell(std::string_view text);
/// All rules in Markdown, by group: docs/rules.md.
std::string rules_page();

}  // namespace rdmawire::conformance
