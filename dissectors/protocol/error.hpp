#pragma once
/// A parse error as a value: layer, offset, needed and available bytes.

#include <cstdint>
#include <string>
#include <string_view>

namespace rdmawire {

struct HeaderInfo;

/// A defect of a packet. The library never prints, throws or exits because of input.
struct ParseError {
  enum class Kind : std::uint8_t {
    truncated,  ///< the capture ends before the packet (the available bytes are valid)
    malformed,  ///< the packet contradicts itself, for example by a wrong length or by more padding than payload
    unknown,    ///< a value that is not in the tables, such as an opcode or a version
    limit,      ///< exceeds a limit of nesting or length
  };
  Kind kind;
  const HeaderInfo* layer;  ///< nullptr: no layer
  std::uint32_t offset;     ///< offset of the layer in the decoded bytes
  std::uint32_t needed;     ///< bytes from `offset` (0: not applicable)
  std::uint32_t had;        ///< available bytes from `offset`
  std::string_view what;    ///< string literal: "the header length exceeds the packet"

  static constexpr ParseError truncated(const HeaderInfo& layer, std::uint32_t offset, std::uint32_t needed,
                                        std::uint32_t had) {
    return {Kind::truncated, &layer, offset, needed, had, "the bytes end inside the header"};
  }
};

/// Returns "bth at offset 42: the bytes end inside the header (needed 12, had 7)".
std::string to_string(const ParseError& error);
std::string_view to_string(ParseError::Kind kind);

}  // namespace rdmawire
