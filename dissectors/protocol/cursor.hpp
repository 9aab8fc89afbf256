#pragma once
/// Parts that the decoders of all protocols use: a cursor in the packet, and the step from one header to the next.

#include "dissectors/protocol/stack.hpp"

namespace rdmawire {

struct DecodeOptions;

/// Decoding position. `declared_end` is the innermost limit from a length field. `end` is the same limit, clipped to
/// the captured bytes.
struct Cursor {
  HeaderStack& stack;
  const DecodeOptions& options;
  std::uint32_t at = 0;
  std::uint32_t end = 0;
  std::uint32_t declared_end = 0;

  [[nodiscard]] const std::uint8_t* here() const { return stack.bytes.data() + at; }
  [[nodiscard]] std::uint32_t left() const { return end - at; }

  /// True if `bytes` are available for `header`. Otherwise adds a finding: "truncated" if captured bytes are missing,
  /// or "malformed" if a length field leaves too few bytes.
  bool need(const HeaderInfo& header, std::uint32_t bytes) {
    if (left() >= bytes) return true;
    lack(header, bytes);
    return false;
  }
  void lack(const HeaderInfo& header, std::uint32_t bytes);
  void malformed(const HeaderInfo& header, std::string_view what, std::uint32_t needed = 0, std::uint32_t had = 0) {
    stack.report({ParseError::Kind::malformed, &header, at, needed, had, what});
  }
  /// Appends a layer of `bytes`, which need() has checked.
  bool take(const HeaderInfo& header, std::uint32_t bytes) {
    if (!stack.push(header, at, bytes)) return false;
    at += bytes;
    return true;
  }
  /// Limits the current layer to `bytes` after `from`, the value of its length field. If that exceeds the enclosing
  /// layer, keeps the limit of the enclosing layer, adds a finding and returns false.
  bool limit(const HeaderInfo& header, std::uint32_t from, std::uint64_t bytes) {
    if (from + bytes > declared_end) {
      malformed(header, "the length field exceeds the enclosing layer",
                static_cast<std::uint32_t>(std::min<std::uint64_t>(bytes, UINT32_MAX)), declared_end - from);
      return false;
    }
    declared_end = static_cast<std::uint32_t>(from + bytes);
    if (declared_end < end) end = declared_end;
    return true;
  }
  /// Limits a network header like limit(). If its length exceeds the frame, the packet was truncated before it was
  /// captured: marks the packet as truncated and adds a finding.
  void datagram(const HeaderInfo& header, std::uint32_t from, std::uint64_t bytes) {
    const auto had = declared_end - from;
    declared_end = static_cast<std::uint32_t>(from + bytes);
    if (bytes <= had) {
      end = std::min(end, declared_end);
      return;
    }
    stack.cut = true;
    stack.report({ParseError::Kind::truncated, &header, from, static_cast<std::uint32_t>(bytes), had,
                  "the packet was truncated before it was captured, or its length field is wrong"});
  }
  /// Makes the remaining bytes the payload.
  void payload() { stack.payload = {at, left()}; }
};

/// A decoder of one header. It returns the decoder of the next header, or nullptr at the end of the packet.
struct Step {
  using Decoder = Step (*)(Cursor&);
  Decoder next = nullptr;
};
inline constexpr Step done{};

}  // namespace rdmawire
