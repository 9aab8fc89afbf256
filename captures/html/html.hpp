#pragma once
/// Self-contained HTML reports. embed.cmake generates a template from HTML, styles and scripts, and fill_page() inserts
/// data.

#include <span>
#include <string>
#include <string_view>

namespace rdmawire::captures {

/// Data for a placeholder in a template. It is inserted compressed, so that a browser does not parse it as HTML.
/// carried.js decompresses it.
struct Carried {
  std::string_view place;  ///< the placeholder, such as "{{report}}"
  std::string_view text;
};

/// Fills a template. `title` is plain text for {{title}}. After {{title}}, the template must contain the placeholders
/// of `carried`, each once and in this order. Throws only std::bad_alloc.
std::string fill_page(std::string_view page_template, std::string_view title, std::span<const Carried> carried);

}  // namespace rdmawire::captures
