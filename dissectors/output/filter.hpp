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

/// An error in an expression, with its position.
struct FilterError {
  std::size_t position = 0;  ///< offset from the start of the expression in bytes
  std::size_t length = 0;    ///< length in bytes (0: between two characters, or at the end)
  std::string message;       ///< the message: what was found and what was expected, with similar valid names
};
/// Returns three lines: the expression (the part around the error, if it is long), carets below the error, and the
/// message.
std::string to_string(const FilterError& error, std::string_view expression);

/// A compiled expression. Matching does not allocate memory. Several threads can share a filter.
class Filter {
 public:
  static constexpr std::size_t max_length = 8192;  ///< maximum length of an expression in bytes
  static constexpr unsigned max_depth = 64;        ///< maximum depth of nested brackets and `not`

  /// Compiles an expression. The registry resolves its names.
  static tl::expected<Filter, FilterError> compile(std::string_view expression);

  [[nodiscard]] bool matches(const tracking::Packet& packet) const;

  /// True if the result depends on CRCs. They must be verified before the filter runs.
  [[nodiscard]] bool uses_crcs() const { return uses_crcs_; }
  /// Returns the expression in a canonical form, which compiles to an equivalent filter.
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
  /// The item that a test reads: a field of a header (Kind::header: the header), or a derived field.
  struct Source {
    const HeaderInfo* header = nullptr;
    const Field* field = nullptr;
    const Derived* derived = nullptr;
  };
  template <class Number>
  struct Range {
    Number from;
    Number width;  ///< a value is in the range if (value - from) <= width, with unsigned arithmetic
  };
  /// Consecutive items in one of the filter's tables.
  struct Run {
    std::uint16_t begin = 0;
    std::uint16_t count = 0;
  };
  /// One test. `if_true` and `if_false`: where evaluation continues. They are the index of a test, `accept` or
  /// `reject`.
  struct Test {
    Kind kind = Kind::header;
    bool none = false;  ///< operator `!=`: true if the field is present and none of its occurrences equals the value
    std::uint16_t if_true = 0;
    std::uint16_t if_false = 0;
    Run sources;
    Run values;  ///< items of ranges_, wide_ranges_ or strings_, according to `kind`
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
