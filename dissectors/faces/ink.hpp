#pragma once
/// Text with colours and columns. Colours are escape sequences of a terminal (ECMA-48) and cost nothing when off.

#include <cstdint>
#include <string>
#include <string_view>

#include "dissectors/faces/value.hpp"

namespace rdmawire::faces {

/// What a piece of text is, from which its colour follows.
enum class Ink : std::uint8_t {
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

/// The escape sequence that begins `ink`.
std::string_view escape_of(Ink ink);

/// Writes into a string. Knows the column, so that escape sequences do not disturb alignment.
class Page {
 public:
  Page(std::string& out, bool colours) : out_(out), colours_(colours) {}

  Page& put(std::string_view text) {
    out_.append(text);
    column_ += columns(text);
    return *this;
  }
  Page& put(Ink ink, std::string_view text) {
    begin(ink);
    put(text);
    end(ink);
    return *this;
  }
  /// Lets `append(std::string&)` write, counted as text.
  template <class Append>
  Page& with(Append append) {
    const std::size_t from = out_.size();
    append(out_);
    column_ += columns(std::string_view(out_).substr(from));
    return *this;
  }
  void begin(Ink ink) {
    if (colours_ && ink != Ink::plain) out_.append(escape_of(ink));
  }
  void end(Ink ink) {
    if (colours_ && ink != Ink::plain) out_.append("\033[0m");
  }
  /// Spaces up to `column`.
  Page& to(std::size_t column) {
    if (column_ < column) {
      out_.append(column - column_, ' ');
      column_ = column;
    }
    return *this;
  }
  Page& line() {
    out_ += '\n';
    column_ = 0;
    return *this;
  }
  /// A mark to come back to: what was written since can be taken back.
  struct Mark {
    std::size_t size;
    std::size_t column;
  };
  [[nodiscard]] Mark mark() const { return {out_.size(), column_}; }
  void back_to(Mark mark) {
    out_.resize(mark.size);
    column_ = mark.column;
  }
  [[nodiscard]] std::size_t column() const { return column_; }
  [[nodiscard]] bool colours() const { return colours_; }

 private:
  std::string& out_;
  std::size_t column_ = 0;
  bool colours_;
};

}  // namespace rdmawire::faces
