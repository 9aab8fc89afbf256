#pragma once
/// Self-contained HTML form of the report: `rdmawire analyze --html OUT`.

#include <string>
#include <string_view>

namespace rdmawire::captures {

/// Returns the page. `report_json` is the output of `--json`, and `details_json` is the result of a second pass over
/// the capture (docs/reference/analyze-report.md, "The page's details"). Both must be UTF-8. They are compressed, so
/// that a browser does not parse them as HTML. `title` is plain text. If the JSON is invalid, the page shows an error.
/// Missing sections are omitted. Throws only std::bad_alloc.
std::string html_page(std::string_view report_json, std::string_view details_json, std::string_view title);

}  // namespace rdmawire::captures
