#pragma once
/// Explains names of headers, fields, opcodes, syndromes, codes, events and rules.

#include <string>
#include <string_view>
#include <vector>

namespace rdmawire::conformance {

/// Explains `query` as text, or as JSON objects, one per line. If the query has the form of a rule's name, rules take
/// precedence. Returns an empty text if the name is unknown.
std::string explanation(const std::string& query, bool json = false, bool colors = false);
/// Returns names similar to `query`, nearest first. Rules take precedence.
std::vector<std::string> nearest_explained(const std::string& query);

}  // namespace rdmawire::conformance
