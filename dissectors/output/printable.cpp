#include "dissectors/output/printable.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdint>

#include "dissectors/output/text_style.hpp"

namespace rdmawire::output {
namespace {

/// A decoded character. If `length` is 0, the byte is not UTF-8.
struct Character {
  char32_t code = 0;
  std::size_t length = 0;
};

/// Decodes the first character according to RFC 3629. Rejects surrogates and overlong forms.
Character decode(std::string_view text) {
  const auto byte = [&](std::size_t i) { return static_cast<std::uint8_t>(text[i]); };
  const std::uint8_t first = byte(0);
  if (first < 0x80) return {first, 1};
  const std::size_t length = first >= 0xf0 ? 4 : first >= 0xe0 ? 3 : 2;
  if (first < 0xc2 || first > 0xf4 || text.size() < length) return {};
  char32_t code = first & (0xffU >> (length + 1));
  for (std::size_t i = 1; i < length; ++i) {
    if ((byte(i) & 0xc0) != 0x80) return {};
    code = code << 6 | (byte(i) & 0x3f);
  }
  constexpr std::array<char32_t, 5> smallest{0, 0, 0x80, 0x800, 0x10000};
  if (code < smallest[length] || code > 0x10ffff || (code >= 0xd800 && code <= 0xdfff)) return {};
  return {code, length};
}

/// True for control characters (Unicode category Cc), for characters that are invisible or change the direction (Cf),
/// and for separators of lines and paragraphs.
bool is_dangerous(char32_t code) {
  struct Range {
    char32_t first, last;
  };
  static constexpr std::array ranges{
      Range{0x0000, 0x001f}, Range{0x007f, 0x009f}, Range{0x00ad, 0x00ad},   Range{0x061c, 0x061c},
      Range{0x180e, 0x180e}, Range{0x200b, 0x200f}, Range{0x2028, 0x202e},   Range{0x2060, 0x206f},
      Range{0xfeff, 0xfeff}, Range{0xfff9, 0xfffb}, Range{0x1d173, 0x1d17a}, Range{0xe0000, 0xe007f},
  };
  return std::any_of(ranges.begin(), ranges.end(),
                     [&](const Range& range) { return code >= range.first && code <= range.last; });
}

void append_escape(std::string& out, char32_t code) {
  if (code == '\n')
    out += "\\n";
  else if (code == '\r')
    out += "\\r";
  else if (code == '\t')
    out += "\\t";
  else if (code < 0x20)
    fmt::format_to(std::back_inserter(out), "\\x{:02x}", static_cast<std::uint32_t>(code));
  else if (code < 0x10000)
    fmt::format_to(std::back_inserter(out), "\\u{:04x}", static_cast<std::uint32_t>(code));
  else
    fmt::format_to(std::back_inserter(out), "\\u{:04x}\\u{:04x}", 0xd7c0U + (static_cast<std::uint32_t>(code) >> 10),
                   0xdc00U + (static_cast<std::uint32_t>(code) & 0x3ff));
}

/// Returns the length of a TextStyle's escape sequence at the start of `text`, or 0 if there is none.
std::size_t style_length(std::string_view text) {
  for (int style = 0; style <= static_cast<int>(TextStyle::payload); ++style) {
    const std::string_view escape = escape_of(static_cast<TextStyle>(style));
    if (!escape.empty() && text.starts_with(escape)) return escape.size();
  }
  return 0;
}

/// Returns the length of the start of `text` that consists of printable ASCII and line ends.
std::size_t harmless(std::string_view text) {
  return static_cast<std::size_t>(std::find_if(text.begin(), text.end(),
                                               [](char c) {
                                                 const auto byte = static_cast<std::uint8_t>(c);
                                                 return (byte < 0x20 && c != '\n') || byte >= 0x7f;
                                               }) -
                                  text.begin());
}

/// Copies `text`. For each dangerous character or invalid byte (length 0), `escape(out, rest, character)` appends the
/// replacement and returns the number of bytes that it replaces.
template <class Escape>
std::string replaced(std::string_view text, const Escape& escape) {
  std::string out;
  out.reserve(text.size());
  while (!text.empty()) {
    const std::size_t plain = harmless(text);
    out.append(text.substr(0, plain));
    text.remove_prefix(plain);
    if (text.empty()) break;
    const Character next = decode(text);
    if (next.length != 0 && !is_dangerous(next.code)) {
      out.append(text.substr(0, next.length));
      text.remove_prefix(next.length);
    } else {
      text.remove_prefix(escape(out, text, next));
    }
  }
  return out;
}

std::size_t escape_visibly(std::string& out, std::string_view rest, const Character& next) {
  if (next.length == 0)
    fmt::format_to(std::back_inserter(out), "\\x{:02x}", static_cast<std::uint8_t>(rest.front()));
  else
    append_escape(out, next.code);
  return std::max<std::size_t>(next.length, 1);
}

}  // namespace

std::string printable(std::string_view text, std::size_t most) {
  const std::size_t whole = text.size();
  if (whole > most) {
    text = text.substr(0, most);
    // Remove an incomplete character at the end.
    for (int i = 0; i < 3 && !text.empty() && (static_cast<std::uint8_t>(text.back()) & 0xc0) == 0x80; ++i)
      text.remove_suffix(1);
    if (!text.empty() && static_cast<std::uint8_t>(text.back()) >= 0xc0) text.remove_suffix(1);
  }
  std::string out = replaced(text, escape_visibly);
  if (out.find('\n') != std::string::npos) {
    std::string one_line;
    for (const char c : out) one_line += c == '\n' ? "\\n" : std::string(1, c);
    out = std::move(one_line);
  }
  if (whole > most) out += fmt::format("… ({} bytes)", whole);
  return out;
}

std::string printable_lines(std::string_view text, bool colors) {
  return replaced(text, [colors](std::string& out, std::string_view rest, const Character& next) -> std::size_t {
    if (next.code == '\t') {
      out += '\t';
      return 1;
    }
    if (const std::size_t length = colors && next.code == 0x1b ? style_length(rest) : 0) {
      out.append(rest.substr(0, length));
      return length;
    }
    return escape_visibly(out, rest, next);
  });
}

}  // namespace rdmawire::output
