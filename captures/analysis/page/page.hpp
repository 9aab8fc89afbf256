#pragma once
/// Self-contained HTML form of the report: `rdmawire analyze --html OUT`.

#include <string>
#include <string_view>

namespace rdmawire::captures {

/// Returns the page. `report_json` is the output of `--json`, `details_json` the result of a second pass over the
/// capture (docs/reference/analyze-report.md, "The page's details"). Both are UTF-8. They are inserted compressed, so
/// that a browser never parses them as HTML. `title` is plain text. For invalid JSON the page shows an error. Missing
/// sections are omitted. Throws only std::bad_alloc.
std::string html_page(std::string_view report_json, std::string_view details_json, std::string_view title);

}  // namespace rdmawire::captures
