#pragma once
/// Building blocks of terminal reports: headings, labeled and wrapped text, tables. Internal to the report components.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "captures/analysis/report.hpp"
#include "dissectors/output/text_style.hpp"

namespace rdmawire::captures::analysis {

/// Converts the value of a report key. null yields 0, "" or "–". Words are made printable as a part of one line
/// (output::printable).
std::uint64_t number(const Json& value);
std::string word(const Json& value);
std::string duration(const Json& value);

/// Formats bytes as "12.3 MB": three digits, decimal multiples.
std::string bytes_text(std::uint64_t bytes);
std::string bytes_text(const Json& value);
/// Converts "remote_access_error" to "remote access error", and "rnr_nak" to "RNR NAK".
std::string spoken(std::string_view name);
/// Truncates `text` to `width` columns and appends an ellipsis.
std::string cut(const std::string& text, std::size_t width);

struct Column {
  std::string title;
  enum Align : std::uint8_t { left, right } align = right;
  unsigned sacrifice = 0;  ///< columns with a higher number are omitted first if the table is too wide (0: never)
};

class TextPage {
 public:
  TextPage(std::string& out, const TextOptions& options)
      : width_(std::max<std::size_t>(options.width, 80)), page_(out, options.colors) {}

 protected:
  static constexpr std::size_t label_column = 17;

  void heading(std::string_view title);
  /// Prints "  label          text". Continuation lines start at `column`.
  void labeled(std::string_view label, std::string_view text, std::size_t column = label_column,
               output::TextStyle ink = output::TextStyle::plain);
  /// Prints the first line of a finding: severity ("error", "warning" or "info"), flow and title.
  void finding_title(const Json& finding);
  /// Prints a table, or nothing if `rows` is empty. `all_rows`: total number of rows. `note`: a line after the table.
  void table(std::string_view title, std::vector<Column> columns, std::vector<std::vector<std::string>> rows,
             std::size_t all_rows, std::string_view note = {});

  std::size_t width_;
  output::Page page_;
};

}  // namespace rdmawire::captures::analysis
