#include "captures/analysis/page/page.hpp"

#include <array>

#include "captures/analysis/page/template.hpp"
#include "captures/html/html.hpp"

namespace rdmawire::captures {

std::string html_page(std::string_view report_json, std::string_view details_json, std::string_view title) {
  return fill_page(page_template(), title,
                   std::array{Carried{"{{report}}", report_json}, Carried{"{{details}}", details_json}});
}

}  // namespace rdmawire::captures
