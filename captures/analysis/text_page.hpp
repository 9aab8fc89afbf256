#pragma once
/// What all reports in a terminal are made of: headings, labeled sentences that wrap, tables that fit. Internal to the
/// report rooms.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "captures/analysis/report.hpp"
#include "dissectors/output/text_style.hpp"

namespace rdmawire::captures::analysis {

/// What a report holds under a key; 0, nothing, "–" where it is null.
std::uint64_t number(const Json& value);
std::string word(const Json& value);
std::string duration(const Json& value);

/// "12.3 MB"; three digits, decimal multiples.
std::string bytes_text(std::uint64_t bytes);
std::string bytes_text(const Json& value);
/// "remote_access_error" to "remote access error", "rnr_nak" to "RNR NAK".
std::string spoken(std::string_view name);
/// Cut to `width` columns, with an ellipsis for what is missing.
std::string cut(const std::string& text, std::size_t width);

struct Column {
  std::string title;
  enum Align : std::uint8_t { left, right } align = right;
  unsigned sacrifice = 0;  ///< where there is too little room, columns with a higher number go first; 0 stays
};

class TextPage {
 public:
  TextPage(std::string& out, const TextOptions& options)
      : width_(std::max<std::size_t>(options.width, 80)), page_(out, options.colors) {}

 protected:
  void heading(std::string_view title);
  /// "  label       text", the text wrapped.
  void labeled(std::string_view label, std::string_view text, std::size_t column = 14,
               output::TextStyle ink = output::TextStyle::plain);
  /// Nothing when there are no rows. `all_rows`: how many there are beside those shown; `note`: a line behind.
  void table(std::string_view title, std::vector<Column> columns, std::vector<std::vector<std::string>> rows,
             std::size_t all_rows, std::string_view note = {});

  std::size_t width_;
  output::Page page_;
};

}  // namespace rdmawire::captures::analysis
