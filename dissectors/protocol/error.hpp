#pragma once
/// A parse error is a value: which layer, where, what was needed, what was there.

#include <cstdint>
#include <string>
#include <string_view>

namespace rdmawire {

struct HeaderInfo;

/// What is wrong with bytes. The library never prints, throws or exits because of input.
struct ParseError {
  enum class Kind : std::uint8_t {
    truncated,  ///< the capture ends before the packet does; what is there is fine
    malformed,  ///< the packet contradicts itself: a length that lies, a pad beyond the payload
    unknown,    ///< a value that the tables do not know: an opcode, a version
    limit,      ///< deeper or longer than we follow
  };
  Kind kind;
  const HeaderInfo* layer;  ///< nullptr: no layer could be named
  std::uint32_t offset;     ///< of the layer, in the bytes that were given
  std::uint32_t needed;     ///< bytes from `offset` (0: not a matter of length)
  std::uint32_t had;        ///< bytes from `offset`
  std::string_view what;    ///< a constant sentence: "the header length exceeds the packet"

  static constexpr ParseError truncated(const HeaderInfo& layer, std::uint32_t offset, std::uint32_t needed,
                                        std::uint32_t had) {
    return {Kind::truncated, &layer, offset, needed, had, "the bytes end inside the header"};
  }
};

/// "bth at offset 42: the bytes end inside the header (needed 12, had 7)"
std::string to_string(const ParseError& error);
std::string_view to_string(ParseError::Kind kind);

}  // namespace rdmawire
