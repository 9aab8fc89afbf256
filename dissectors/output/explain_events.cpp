#include "dissectors/output/explain_events.hpp"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "dissectors/output/text_style.hpp"
#include "dissectors/tracking/event.hpp"
#include "dissectors/tracking/mrc_flow.hpp"

namespace rdmawire::output {
namespace {

bool is_called(std::string_view row, std::string_view name) {
  return name.empty() || std::equal(row.begin(), row.end(), name.begin(), name.end(), [](char a, char b) {
           const char lower = b >= 'A' && b <= 'Z' ? static_cast<char>(b - 'A' + 'a') : b;
           return a == lower || (a == '_' && (b == ' ' || b == '-'));
         });
}

TextStyle ink_of_severity(tracking::Severity severity) {
  switch (severity) {
    case tracking::Severity::error: return TextStyle::bad;
    case tracking::Severity::warning: return TextStyle::notice;
    default: return TextStyle::dim;
  }
}

}  // namespace

std::string explain_events(std::string_view name, bool colors) {
  std::string out;
  Page page(out, colors);
  constexpr std::size_t severity_column = 24, meaning_column = 33;
  for (const tracking::EventRow& row : tracking::event_rows) {
    if (!is_called(row.name, name)) continue;
    page.put(TextStyle::strong, row.name).to(severity_column);
    page.put(ink_of_severity(row.severity), to_string(row.severity)).to(meaning_column).put(row.meaning).line();
    if (row.causes.empty()) continue;
    page.to(meaning_column).put(TextStyle::dim, "causes: ");
    for (std::size_t i = 0; i < row.causes.size(); ++i) {
      if (page.column() > 100) page.line().to(meaning_column + 8);
      page.put(to_string(row.causes[i])).put(i + 1 < row.causes.size() ? ", " : "");
    }
    page.line();
  }
  for (const tracking::MrcFindingRow& row : tracking::mrc_finding_rows) {
    if (!is_called(row.name, name)) continue;
    page.put(TextStyle::strong, row.name).to(severity_column);
    page.put(ink_of_severity(row.severity), to_string(row.severity)).to(meaning_column).put(row.meaning).line();
  }
  return out;
}

std::string explain_events_json(std::string_view name) {
  std::string out;
  for (const tracking::EventRow& row : tracking::event_rows) {
    if (!is_called(row.name, name)) continue;
    nlohmann::ordered_json causes = nlohmann::ordered_json::array();
    for (const tracking::Cause cause : row.causes) causes.push_back(to_string(cause));
    const nlohmann::ordered_json json{{"kind", "event"},
                                      {"id", row.name},
                                      {"severity", to_string(row.severity)},
                                      {"meaning", row.meaning},
                                      {"causes", causes}};
    out += json.dump() + "\n";
  }
  for (const tracking::MrcFindingRow& row : tracking::mrc_finding_rows) {
    if (!is_called(row.name, name)) continue;
    const nlohmann::ordered_json json{{"kind", "event"},
                                      {"id", row.name},
                                      {"severity", to_string(row.severity)},
                                      {"meaning", row.meaning},
                                      {"causes", nlohmann::ordered_json::array()}};
    out += json.dump() + "\n";
  }
  return out;
}

}  // namespace rdmawire::output
