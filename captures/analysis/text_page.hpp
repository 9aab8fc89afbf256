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

/// Convert the value of a report key. null becomes 0, "" or "–". Texts are escaped for use in one line
/// (output::printable).
std::uint64_t number(const Json& value);
std::string word(const Json& value);
std::string duration(const Json& value);

/// Formats a number of bytes with three digits and a decimal unit: "12.3 MB".
std::string bytes_text(std::uint64_t bytes);
std::string bytes_text(const Json& value);
/// Returns a name as words: "remote access error" for "remote_access_error", "RNR NAK" for "rnr_nak".
std::string spoken(std::string_view name);
/// Truncates `text` to `width` columns, and marks this with an ellipsis.
std::string cut(const std::string& text, std::size_t width);

struct Column {
  std::string title;
  enum Align : std::uint8_t { left, right } align = right;
  unsigned sacrifice = 0;  ///< if the table is too wide, columns with the highest number are omitted first (0: the
                           ///< column is never omitted)
};

class TextPage {
 public:
  TextPage(std::string& out, const TextOptions& options)
      : width_(std::max<std::size_t>(options.width, 80)), page_(out, options.colors) {}

 protected:
  static constexpr std::size_t label_column = 17;

  void heading(std::string_view title);
  /// Prints "  label  text". Continuation lines start at `column`.
  void labeled(std::string_view label, std::string_view text, std::size_t column = label_column,
               output::TextStyle ink = output::TextStyle::plain);
  /// Prints the first line of a finding: severity ("error", "warning" or "info"), flow and title.
  void finding_title(const Json& finding);
  /// Prints a table, or nothing if `rows` is empty. `all_rows` is the total number of rows. `note` is printed after the
  /// table.
  void table(std::string_view title, std::vector<Column> columns, std::vector<std::vector<std::string>> rows,
             std::size_t all_rows, std::string_view note = {});

  std::size_t width_;
  output::Page page_;
};

}  // namespace rdmawire::captures::analysis
