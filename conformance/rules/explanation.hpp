#pragma once
/// What anything that has a name means: a header, field, opcode, syndrome, code, event or rule.

#include <string>
#include <string_view>
#include <vector>

namespace rdmawire::conformance {

/// What `query` asks for, as text, or as JSON objects, one a line; rules first where it looks like one. Empty: nothing
/// is called so.
std::string explanation(const std::string& query, bool json = false, bool colors = false);
/// What `query` may have meant, the nearest names first: rules where it looks like one.
std::vector<std::string> nearest_explained(const std::string& query);

}  // namespace rdmawire::conformance
