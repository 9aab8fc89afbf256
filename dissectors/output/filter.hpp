#pragma once
/// Filters: an expression over the tables' field names that a packet matches or not.
///
///     bth.opcode == "RC SEND Only" and not (ip.src == 10.0.0.0/24 or frame.len > 1500)
///
/// The language is described in docs/filters.md.

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <tl/expected.hpp>
#include <vector>

#include "dissectors/tracking/packet.hpp"

namespace rdmawire::output {

struct Derived;

/// What is wrong with an expression, and where.
struct FilterError {
  std::size_t position = 0;  ///< bytes from the expression's begin
  std::size_t length = 0;    ///< bytes; 0: between two characters, or at the end
  std::string message;       ///< one sentence: what was found, what was expected, the nearest right names
};
/// Three lines: the expression, carets below the place, the message.
std::string to_string(const FilterError& error, std::string_view expression);

/// An expression, compiled. Matching does not allocate, and one filter can be used by several threads.
class Filter {
 public:
  static constexpr std::size_t max_length = 8192;  ///< bytes of an expression
  static constexpr unsigned max_depth = 64;        ///< brackets and `not` inside each other

  /// Compiles an expression; names are resolved against the registry.
  static tl::expected<Filter, FilterError> compile(std::string_view expression);

  [[nodiscard]] bool matches(const tracking::Packet& packet) const;

  /// Whether the result depends on CRCs, so that they must have been verified before.
  [[nodiscard]] bool uses_crcs() const { return uses_crcs_; }
  /// The expression in its plain form: compiling it gives the same filter.
  [[nodiscard]] const std::string& text() const { return text_; }

 private:
  friend class FilterCompiler;
  Filter() = default;
  __extension__ using Wide = unsigned __int128;

  enum class Kind : std::uint8_t {
    header,   ///< one of the headers is there
    present,  ///< one of the fields is there
    set,      ///< one of the fields is not zero
    number,   ///< a field of up to 64 bits lies in one of the ranges
    wide,     ///< the same for 128 bits
    equals,   ///< bytes are one of the strings
    contains,
  };
  /// What is compared: a header's field (or, for Kind::header, a header alone), or something derived.
  struct Source {
    const HeaderInfo* header = nullptr;
    const Field* field = nullptr;
    const Derived* derived = nullptr;
  };
  template <class Number>
  struct Range {
    Number from;
    Number width;  ///< inside: value - from <= width, unsigned
  };
  /// A run of one of the filter's tables.
  struct Run {
    std::uint16_t begin = 0;
    std::uint16_t count = 0;
  };
  /// One test and where it leads: an index, or one of the two ends.
  struct Test {
    Kind kind = Kind::header;
    bool none = false;  ///< `!=`: something is there, and no occurrence compares equal
    std::uint16_t if_true = 0;
    std::uint16_t if_false = 0;
    Run sources;
    Run values;  ///< of ranges_, wide_ranges_ or strings_, by kind
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
