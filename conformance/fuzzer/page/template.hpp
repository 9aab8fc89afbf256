#pragma once
/// The page without its data, as captures/html puts it together from the files of this folder and the shared ones.

#include <string_view>

namespace rdmawire::fuzzer {

/// HTML with two places to fill, each once and in this order: {{title}}, {{report}}.
std::string_view page_template();

}  // namespace rdmawire::fuzzer
