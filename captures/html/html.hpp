#pragma once
/// Self-contained HTML reports. embed.cmake generates a template from HTML, styles and scripts. fill_page() inserts
/// data.

#include <span>
#include <string>
#include <string_view>

namespace rdmawire::captures {

/// Data for a place in a template. Inserted with compression, so that a browser never parses it as HTML. carried.js
/// decompresses it.
struct Carried {
  std::string_view place;  ///< "{{report}}"
  std::string_view text;
};

/// Fills a template. `title` is plain text for {{title}}. The template must contain the places of `carried` after
/// {{title}}, each once and in this order. Throws only std::bad_alloc.
std::string fill_page(std::string_view page_template, std::string_view title, std::span<const Carried> carried);

}  // namespace rdmawire::captures
