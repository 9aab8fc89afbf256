#pragma once
/// Operators of filters that consist of letters.

#include <string_view>

namespace rdmawire::output {

/// Returns whether a name is an operator of filters, such as "and" and "contains".
bool is_filter_operator(std::string_view name);

}  // namespace rdmawire::output
