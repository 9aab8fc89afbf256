#pragma once
/// The page without its data, as embed.cmake put it together from the files of this folder and the libraries.

#include <string_view>

namespace rdmawire::captures {

/// HTML with three places to fill, each once and in this order: {{title}}, {{report}}, {{details}}.
std::string_view page_template();

}  // namespace rdmawire::captures
