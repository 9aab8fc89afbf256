#pragma once
/// The report of `analyze` as one HTML page that needs nothing else: `rdmawire analyze --html OUT`.

#include <string>
#include <string_view>

namespace rdmawire::captures {

/// The page. `report_json` is what `--json` prints, `details_json` what a second pass over the capture adds
/// (docs/reference/analyze-report.md, "The page's details"); both are UTF-8, and neither is looked into here: they are
/// put in compressed, so that nothing they hold can be read as HTML. `title` is text, not HTML. What is not JSON, or
/// lacks a section, gives a page that says so or leaves the section out. Throws std::bad_alloc where memory ends, and
/// nothing else.
std::string html_page(std::string_view report_json, std::string_view details_json, std::string_view title);

}  // namespace rdmawire::captures
