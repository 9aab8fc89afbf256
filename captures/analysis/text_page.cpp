#include "captures/analysis/text_page.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "captures/analysis/findings.hpp"
#include "dissectors/output/printable.hpp"
#include "dissectors/output/value.hpp"

namespace rdmawire::captures::analysis {

using output::TextStyle;

std::uint64_t number(const Json& value) { return value.is_number() ? value.get<std::uint64_t>() : 0; }
std::string word(const Json& value) {
  return value.is_string() ? output::printable(value.get_ref<const std::string&>()) : std::string();
}
std::string duration(const Json& value) {
  return value.is_number() ? duration_text(value.get<std::int64_t>()) : std::string("–");
}

std::string bytes_text(std::uint64_t bytes) {
  if (bytes < 1000) return fmt::format("{} B", bytes);
  double value = static_cast<double>(bytes);
  const char* const units[] = {"kB", "MB", "GB", "TB", "PB", "EB"};
  std::size_t unit = 0;
  for (value /= 1000; value >= 999.5 && unit + 1 < std::size(units); value /= 1000) ++unit;
  return fmt::format("{:.{}f} {}", value, value >= 99.95 ? 0 : value >= 9.995 ? 1 : 2, units[unit]);
}
std::string bytes_text(const Json& value) { return bytes_text(number(value)); }

std::string spoken(std::string_view name) {
  static constexpr std::pair<std::string_view, std::string_view> capitals[] = {
      {"nak", "NAK"}, {"rnr", "RNR"}, {"psn", "PSN"},    {"msn", "MSN"},   {"cnp", "CNP"},
      {"crc", "CRC"}, {"ecn", "ECN"}, {"tcp", "TCP"},    {"ip", "IP"},     {"ttl", "TTL"},
      {"bth", "BTH"}, {"rd", "RD"},   {"pkey", "P_Key"}, {"qkey", "Q_Key"}};
  std::string text;
  while (!name.empty()) {
    const std::size_t end = std::min(name.find('_'), name.size());
    std::string_view part = name.substr(0, end);
    for (const auto& [small, capital] : capitals)
      if (part == small) part = capital;
    if (!text.empty()) text += ' ';
    text += part;
    name.remove_prefix(std::min(end + 1, name.size()));
  }
  return text;
}
std::string cut(const std::string& text, std::size_t width) {
  if (output::columns(text) <= width) return text;
  std::string out;
  std::size_t columns = 0;
  for (const char c : text) {
    if ((c & 0xc0) != 0x80 && ++columns >= width) break;
    out += c;
  }
  return out + "…";
}

void TextPage::heading(std::string_view title) { page_.line().put(TextStyle::strong, title).line(); }

void TextPage::labeled(std::string_view label, std::string_view text, std::size_t column, TextStyle ink) {
  page_.put("  ").put(TextStyle::dim, label).to(column);
  std::size_t at = 0;
  bool first = true;
  while (at < text.size()) {
    std::size_t end = std::min(text.find(' ', at), text.size());
    const std::string_view next = text.substr(at, end - at);
    if (!first && page_.column() + 1 + output::columns(next) > width_)
      page_.line().to(column);
    else if (!first)
      page_.put(" ");
    page_.put(ink, next);
    first = false;
    at = end + 1;
  }
  page_.line();
}

void TextPage::finding_title(const Json& finding) {
  const std::string severity = word(finding.at("severity"));
  const TextStyle ink = severity == "error"     ? TextStyle::bad
                        : severity == "warning" ? TextStyle::notice
                                                : TextStyle::plain;
  page_.line();
  page_.put(ink, severity == "error" ? "✗" : severity == "warning" ? "!" : "·").put(" ");
  const std::string title = word(finding.at("title"));
  page_.put(TextStyle::strong, word(finding.at("flow")));
  if (page_.column() + 3 + output::columns(title) > width_)
    page_.line().put("  ");
  else
    page_.put("   ");
  page_.put(ink, title).line();
}

void TextPage::table(std::string_view title, std::vector<Column> columns, std::vector<std::vector<std::string>> rows,
                     std::size_t all_rows, std::string_view note) {
  if (rows.empty()) return;
  heading(title);
  const auto widths_of = [&] {
    std::vector<std::size_t> widths;
    for (std::size_t c = 0; c < columns.size(); ++c) {
      std::size_t w = output::columns(columns[c].title);
      for (const auto& row : rows) w = std::max(w, output::columns(row[c]));
      widths.push_back(w);
    }
    return widths;
  };
  // Omit columns that are empty.
  for (std::size_t c = columns.size(); c-- > 0;) {
    if (!std::all_of(rows.begin(), rows.end(), [c](const auto& row) { return row[c].empty(); })) continue;
    columns.erase(columns.begin() + static_cast<std::ptrdiff_t>(c));
    for (auto& row : rows) row.erase(row.begin() + static_cast<std::ptrdiff_t>(c));
  }
  std::vector<std::size_t> widths = widths_of();
  const auto total = [&] {
    std::size_t sum = 2;
    for (const std::size_t w : widths) sum += w + 2;
    return sum - 2;
  };
  while (total() > width_) {
    const auto worst = std::max_element(columns.begin(), columns.end(),
                                        [](const Column& a, const Column& b) { return a.sacrifice < b.sacrifice; });
    if (worst->sacrifice == 0) break;
    const auto at = worst - columns.begin();
    columns.erase(worst);
    for (auto& row : rows) row.erase(row.begin() + at);
    widths = widths_of();
  }
  // If the table is still too wide, shorten the widest text column.
  while (total() > width_) {
    std::size_t widest = columns.size();
    for (std::size_t c = 0; c < columns.size(); ++c)
      if (columns[c].align == Column::left && widths[c] > 12 &&
          (widest == columns.size() || widths[c] > widths[widest]))
        widest = c;
    if (widest == columns.size()) break;
    --widths[widest];
  }
  const auto cell = [&](TextStyle ink, const std::string& text, std::size_t c) {
    const std::string shown = cut(text, widths[c]);
    const std::size_t from = page_.column();
    if (columns[c].align == Column::right) page_.to(from + widths[c] - std::min(widths[c], output::columns(shown)));
    page_.put(ink, shown);
    if (c + 1 < columns.size()) page_.to(from + widths[c] + 2);
  };
  page_.put("  ");
  for (std::size_t c = 0; c < columns.size(); ++c) cell(TextStyle::dim, columns[c].title, c);
  page_.line();
  for (const auto& row : rows) {
    page_.put("  ");
    for (std::size_t c = 0; c < columns.size(); ++c) cell(TextStyle::plain, row[c], c);
    page_.line();
  }
  if (all_rows > rows.size()) page_.put(TextStyle::dim, fmt::format("  and {} more", all_rows - rows.size())).line();
  if (!note.empty()) page_.put(TextStyle::dim, fmt::format("  {}", note)).line();
}

}  // namespace rdmawire::captures::analysis
