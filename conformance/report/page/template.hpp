#pragma once
/// The page without its data, as captures/html puts it together from the files of this folder and the shared ones.

#include <string_view>

namespace rdmawire::conformance {

/// HTML with three places to fill, each once and in this order: {{title}}, {{report}}, {{frames}}.
std::string_view page_template();

}  // namespace rdmawire::conformance
