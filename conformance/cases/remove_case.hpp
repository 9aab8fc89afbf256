#pragma once
/// Removal of cases that add_case() added.

#include <string_view>

namespace rdmawire::conformance {

/// Removes an added case, so that its id can be added again. The object stays valid for runs that use it. Returns false
/// if no added case has this id. Thread-safe.
bool remove_case(std::string_view id);

}  // namespace rdmawire::conformance
