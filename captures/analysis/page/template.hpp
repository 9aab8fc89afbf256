#pragma once
/// The page without data. embed.cmake generates it from the files in this directory and from libraries.

#include <string_view>

namespace rdmawire::captures {

/// Returns HTML with three placeholders, each once and in this order: {{title}}, {{report}}, {{details}}.
std::string_view page_template();

}  // namespace rdmawire::captures
