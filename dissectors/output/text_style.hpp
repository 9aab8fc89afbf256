#pragma once
/// Text with colors and columns. Colors are terminal escape sequences (ECMA-48). If colors are off, there is no cost.

#include <cstdint>
#include <string>
#include <string_view>

#include "dissectors/output/value.hpp"

namespace rdmawire::output {

/// Role of a text, which determines its color.
enum class TextStyle : std::uint8_t {
  plain,
  dim,
  strong,
  request,   ///< an operation of a requester
  response,  ///< a response of a responder
  good,
  notice,  ///< noteworthy, but not an error
  bad,
  link,  ///< this value and those after it are kinds of layers, as in the hexdump
  network,
  transport,
  rdma,
  upper,
  payload,
};

/// Returns the escape sequence that starts the color `ink`. Returns an empty text for `payload`, which has the color of
/// plain text.
std::string_view escape_of(TextStyle ink);

/// Writes styled text into a string. Counts columns without escape sequences, so that colors do not affect alignment.
/// Writes an escape sequence only if the color changes.
class Page {
 public:
  Page(std::string& out, bool colors) : out_(out), colors_(colors) {}

  Page& put(std::string_view text) { return put(base_, text); }
  Page& put(TextStyle ink, std::string_view text) {
    change(ink);
    out_.append(text);
    column_ += columns(text);
    return *this;
  }
  /// Calls `append(std::string&)` to append text.
  template <class Append>
  Page& with(Append append) {
    change(base_);
    const std::size_t from = out_.size();
    append(out_);
    column_ += columns(std::string_view(out_).substr(from));
    return *this;
  }
  /// Makes `ink` the color of text without its own color, until the end of the line.
  Page& base(TextStyle ink) {
    base_ = ink;
    return *this;
  }
  /// Appends complete lines that are already formatted.
  Page& raw(std::string_view lines) {
    out_.append(lines);
    return *this;
  }
  /// Appends spaces up to `column`.
  Page& to(std::size_t column) {
    if (column_ < column) {
      change(base_);
      out_.append(column - column_, ' ');
      column_ = column;
    }
    return *this;
  }
  /// Ends the line and removes trailing spaces.
  Page& line() {
    base_ = TextStyle::plain;
    change(base_);
    while (!out_.empty() && out_.back() == ' ') out_.pop_back();
    out_ += '\n';
    column_ = 0;
    return *this;
  }
  /// A position to which the output can be rolled back.
  struct Mark {
    std::size_t size;
    std::size_t column;
    TextStyle ink;
  };
  [[nodiscard]] Mark mark() const { return {out_.size(), column_, current_}; }
  void back_to(const Mark& mark) {
    out_.resize(mark.size);
    column_ = mark.column;
    current_ = mark.ink;
  }
  /// Returns the text written since `mark`.
  [[nodiscard]] std::string_view since(const Mark& mark) const { return std::string_view(out_).substr(mark.size); }
  [[nodiscard]] std::size_t column() const { return column_; }
  [[nodiscard]] bool colors() const { return colors_; }

 private:
  void change(TextStyle ink) {
    if (escape_of(ink).empty()) ink = TextStyle::plain;
    if (!colors_ || ink == current_) return;
    if (current_ != TextStyle::plain) out_.append(escape_of(TextStyle::plain));
    if (ink != TextStyle::plain) out_.append(escape_of(ink));
    current_ = ink;
  }
  std::string& out_;
  std::size_t column_ = 0;
  TextStyle base_ = TextStyle::plain;
  TextStyle current_ = TextStyle::plain;
  bool colors_;
};

}  // namespace rdmawire::output
