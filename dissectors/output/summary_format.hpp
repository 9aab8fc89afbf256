#pragma once
/// Format of a header's one-line summary: text with field names, one row per header.
///
/// {psn}          the field's value: the name if it is enumerated, hexadecimal numbers without leading zeros
/// {psn:8}        padded to 8 columns
/// {se?SE}        "SE" if the field is not zero
/// {ecn=3?CE}     "CE" if the field has that value
/// [ wait {w}]    omitted if a field inside is not present in this header
/// [?status: …]   also omitted if that field is zero or not present
/// [!port: …]     omitted if that field is present
///
/// The names are checked against the header's table at compile time.

#include <string>
#include <string_view>
#include <vector>

#include "dissectors/output/text_style.hpp"
#include "dissectors/protocol/header.hpp"

namespace rdmawire::output {

/// The format of one header.
struct SummaryFormat {
  const HeaderInfo* header;
  std::string_view sentence;
};

/// Returns the format of `H`. An unknown field name is a compile-time error.
template <class H>
consteval SummaryFormat summary_format(std::string_view sentence) {
  int depth = 0;
  for (std::size_t i = 0; i < sentence.size(); ++i) {
    if (sentence[i] == '[') {
      if (++depth > 1) throw "groups do not nest";
      if (sentence[i + 1] == '?' || sentence[i + 1] == '!')
        static_cast<void>(detail::field_of<H>(sentence.substr(i + 2, sentence.find(':', i) - i - 2)));
    }
    if (sentence[i] == ']' && --depth < 0) throw "a group ends that did not begin";
    if (sentence[i] != '{') continue;
    const std::size_t end = sentence.find('}', i);
    if (end == std::string_view::npos) throw "a brace is not closed";
    static_cast<void>(detail::field_of<H>(sentence.substr(i + 1, sentence.find_first_of("}:?=", i) - i - 1)));
    i = end;
  }
  if (depth != 0) throw "a group is not closed";
  return {&info<H>, sentence};
}

/// A parsed format.
class SummaryPlan {
 public:
  explicit SummaryPlan(const SummaryFormat& summary_format);
  /// Creates the summary of a header without a format: its title.
  explicit SummaryPlan(const HeaderInfo& header);

  /// Writes the summary of the header at `bytes`.
  void write(Page& page, const std::uint8_t* bytes) const;

 private:
  struct Piece {
    std::string_view text;         ///< literal text, or the text after '?'
    const Field* field = nullptr;  ///< nullptr: the piece is only text
    std::uint8_t width = 0;
    bool conditional = false;
    bool any_nonzero = false;
    std::uint64_t value = 0;      ///< value to compare with, for a condition with `=`
    std::uint16_t group_end = 0;  ///< if not 0, a group starts here, and ends before the piece with this index
    char asks = 0;                ///< '?' or '!': the condition of the group, which refers to `field`
  };
  [[nodiscard]] bool group_present(std::size_t begin, const std::uint8_t* bytes) const;
  std::vector<Piece> pieces_;
};

/// Appends the name of `value` in the field's enumeration. If it has no name, appends the title of the enumeration and
/// the value.
void append_named(std::string& out, const Field& field, std::uint64_t value);

}  // namespace rdmawire::output
