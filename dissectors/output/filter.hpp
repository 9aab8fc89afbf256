#pragma once
/// Filters: boolean expressions over the tables' field names, evaluated for a packet.
///
///     bth.opcode == "RC SEND Only" and not (ip.src == 10.0.0.0/24 or frame.len > 1500)
///
/// The language is described in docs/reference/filters.md.

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <tl/expected.hpp>
#include <vector>

#include "dissectors/tracking/packet.hpp"

namespace rdmawire::output {

struct Derived;

/// An error in an expression and its position.
struct FilterError {
  std::size_t position = 0;  ///< bytes from the start of the expression
  std::size_t length = 0;    ///< bytes (0: between two characters, or at the end)
  std::string message;       ///< one sentence: what was found and expected, with similar valid names
};
/// Returns three lines: the expression (of a long one the part around the error), carets below the error, the message.
std::string to_string(const FilterError& error, std::string_view expression);

/// A compiled expression. Matching does not allocate. Several threads can share a filter.
class Filter {
 public:
  static constexpr std::size_t max_length = 8192;  ///< bytes of an expression
  static constexpr unsigned max_depth = 64;        ///< nested brackets and `not`

  /// Compiles an expression. Names are resolved against the registry.
  static tl::expected<Filter, FilterError> compile(std::string_view expression);

  [[nodiscard]] bool matches(const tracking::Packet& packet) const;

  /// True if the result depends on CRCs, which must then be verified before matching.
  [[nodiscard]] bool uses_crcs() const { return uses_crcs_; }
  /// Returns the expression in canonical form, which compiles to the same filter.
  [[nodiscard]] const std::string& text() const { return text_; }

 private:
  friend class FilterCompiler;
  Filter() = default;
  __extension__ using Wide = unsigned __int128;

  enum class Kind : std::uint8_t {
    header,   ///< one of the headers is present
    present,  ///< one of the fields is present
    set,      ///< one of the fields is not zero
    number,   ///< a field of up to 64 bits is in one of the ranges
    wide,     ///< a 128-bit field is in one of the ranges
    equals,   ///< the bytes equal one of the strings
    contains,
  };
  /// The compared item: a header's field (for Kind::header only a header), or a derived field.
  struct Source {
    const HeaderInfo* header = nullptr;
    const Field* field = nullptr;
    const Derived* derived = nullptr;
  };
  template <class Number>
  struct Range {
    Number from;
    Number width;  ///< a value is in the range if value - from <= width (unsigned)
  };
  /// Consecutive items of one of the filter's tables.
  struct Run {
    std::uint16_t begin = 0;
    std::uint16_t count = 0;
  };
  /// One test and its targets for true and false: the index of the next test, or `accept` or `reject`.
  struct Test {
    Kind kind = Kind::header;
    bool none = false;  ///< operator `!=`: true if the field is present, and no occurrence is equal
    std::uint16_t if_true = 0;
    std::uint16_t if_false = 0;
    Run sources;
    Run values;  ///< items of ranges_, wide_ranges_ or strings_, by kind
  };
  static constexpr std::uint16_t accept = 0xffff, reject = 0xfffe;

  [[nodiscard]] bool holds(const Test& test, const tracking::Packet& packet) const;
  template <class Visit>
  static bool visit(const Source& source, const tracking::Packet& packet, Visit take);

  std::vector<Test> tests_;
  std::vector<Source> sources_;
  std::vector<Range<std::uint64_t>> ranges_;
  std::vector<Range<Wide>> wide_ranges_;
  std::vector<std::string> strings_;
  std::string text_;
  bool uses_crcs_ = false;
};

}  // namespace rdmawire::output
