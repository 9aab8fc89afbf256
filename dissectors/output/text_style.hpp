#pragma once
/// Text with colors and columns. Colors are escape sequences of a terminal (ECMA-48) and cost nothing when off.

#include <cstdint>
#include <string>
#include <string_view>

#include "dissectors/output/value.hpp"

namespace rdmawire::output {

/// What a piece of text is, from which its color follows.
enum class TextStyle : std::uint8_t {
  plain,
  dim,
  strong,
  request,   ///< an operation that a requester asks for
  response,  ///< what a responder answers
  good,
  notice,  ///< remarkable
  bad,
  link,  ///< layers by family, as the hexdump tells them apart
  network,
  transport,
  rdma,
  upper,
  payload,
};

/// The escape sequence that begins `ink`; empty when it is written plainly.
std::string_view escape_of(TextStyle ink);

/// Writes into a string. Knows the column, so that escape sequences do not disturb alignment, and the color, so that
/// it is changed only where it changes.
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
  /// Lets `append(std::string&)` write, counted as text.
  template <class Append>
  Page& with(Append append) {
    change(base_);
    const std::size_t from = out_.size();
    append(out_);
    column_ += columns(std::string_view(out_).substr(from));
    return *this;
  }
  /// What has no color of its own is written in `ink` from here on, until the line ends.
  Page& base(TextStyle ink) {
    base_ = ink;
    return *this;
  }
  /// Whole lines that were made elsewhere.
  Page& raw(std::string_view lines) {
    out_.append(lines);
    return *this;
  }
  /// Spaces up to `column`.
  Page& to(std::size_t column) {
    if (column_ < column) {
      change(base_);
      out_.append(column - column_, ' ');
      column_ = column;
    }
    return *this;
  }
  /// Ends the line; spaces at its end are taken away.
  Page& line() {
    base_ = TextStyle::plain;
    change(base_);
    while (!out_.empty() && out_.back() == ' ') out_.pop_back();
    out_ += '\n';
    column_ = 0;
    return *this;
  }
  /// A mark to come back to: what was written since can be taken back.
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
  /// What was written since.
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
