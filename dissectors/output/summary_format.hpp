#pragma once
/// What of a header is worth a place in one line: a sentence with the names of its fields, one row a header.
///
///   {psn}          the field's value: the name of an enumerated one, hexadecimal as short as it goes
///   {psn:8}        padded to so many columns
///   {se?SE}        "SE" when the field is not zero
///   {ecn=3?CE}     "CE" when the field has that value
///   [ wait {w}]    left out when a field inside is not present in this very header
///   [?status: …]   left out too when that field is zero or not present
///   [!port: …]     left out when that field is present
///
/// The names are checked against the header's table when the program is compiled.

#include <string>
#include <string_view>
#include <vector>

#include "dissectors/output/text_style.hpp"
#include "dissectors/protocol/header.hpp"

namespace rdmawire::output {

/// One row: the sentence of a header.
struct SummaryFormat {
  const HeaderInfo* header;
  std::string_view sentence;
};

/// The row of `H`; a name that its table does not have is an error of compilation.
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

/// A sentence made ready for use.
class SummaryPlan {
 public:
  explicit SummaryPlan(const SummaryFormat& summary_format);
  /// For a header that has no sentence: its title.
  explicit SummaryPlan(const HeaderInfo& header);

  /// Writes the sentence for the header at `bytes`.
  void write(Page& page, const std::uint8_t* bytes) const;

 private:
  struct Piece {
    std::string_view text;         ///< what stands for itself, or follows '?'
    const Field* field = nullptr;  ///< nullptr: text only
    std::uint8_t width = 0;
    bool conditional = false;
    bool any_nonzero = false;
    std::uint64_t value = 0;      ///< compared with, when conditional and not any_nonzero
    std::uint16_t group_end = 0;  ///< not 0: a group begins here and ends before that piece
    char asks = 0;                ///< of a group: '?' or '!', about `field`
  };
  [[nodiscard]] bool group_present(std::size_t begin, const std::uint8_t* bytes) const;
  std::vector<Piece> pieces_;
};

/// The name of `value` in the field's enumeration; when it has none there, "title value".
void append_named(std::string& out, const Field& field, std::uint64_t value);

}  // namespace rdmawire::output
