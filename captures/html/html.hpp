#pragma once
/// Reports as one HTML page that needs nothing else: what their pages share. embed.cmake puts a template together from
/// HTML, styles and scripts; here data is put into it.

#include <span>
#include <string>
#include <string_view>

namespace rdmawire::captures {

/// Text for one place of a template. It is put in compressed, so that nothing it holds can be read as HTML; carried.js
/// takes it out again.
struct Carried {
  std::string_view place;  ///< "{{report}}"
  std::string_view text;
};

/// The page. `title` is text, not HTML, for {{title}}; the places of `carried` stand behind it in the template, each
/// once and in this order.
/// Throws std::bad_alloc where memory ends, and nothing else.
std::string fill_page(std::string_view page_template, std::string_view title, std::span<const Carried> carried);

}  // namespace rdmawire::captures
