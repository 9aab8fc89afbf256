#pragma once
/// Shared by the decoders of all protocols: a cursor over a packet, and the step from one header to the next.

#include "dissectors/protocol/stack.hpp"

namespace rdmawire {

struct DecodeOptions;

/// Decoding position. `end` is the innermost limit from a length field, clipped to the captured bytes.
/// `declared_end` is the same limit without clipping.
struct Cursor {
  HeaderStack& stack;
  const DecodeOptions& options;
  std::uint32_t at = 0;
  std::uint32_t end = 0;
  std::uint32_t declared_end = 0;

  [[nodiscard]] const std::uint8_t* here() const { return stack.bytes.data() + at; }
  [[nodiscard]] std::uint32_t left() const { return end - at; }

  /// True if `bytes` are available for `header`. Otherwise adds a finding: truncated if the capture ends early,
  /// malformed if a length field leaves too few bytes.
  bool need(const HeaderInfo& header, std::uint32_t bytes) {
    if (left() >= bytes) return true;
    lack(header, bytes);
    return false;
  }
  void lack(const HeaderInfo& header, std::uint32_t bytes);
  void malformed(const HeaderInfo& header, std::string_view what, std::uint32_t needed = 0, std::uint32_t had = 0) {
    stack.report({ParseError::Kind::malformed, &header, at, needed, had, what});
  }
  /// Adds `bytes`, checked with need(), as a layer.
  bool take(const HeaderInfo& header, std::uint32_t bytes) {
    if (!stack.push(header, at, bytes)) return false;
    at += bytes;
    return true;
  }
  /// Limits the current layer to `bytes` after `from`, according to a length field. Returns false and adds a
  /// finding if that exceeds the enclosing layer, whose limit remains.
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
  /// The same for a network header. Its length may exceed the frame, because the packet was truncated before it was
  /// captured. Then marks the packet as truncated and adds a finding.
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
  /// The remaining bytes are payload.
  void payload() { stack.payload = {at, left()}; }
};

/// A decoder of one header, which returns the next one. Null at the end of the packet.
struct Step {
  using Decoder = Step (*)(Cursor&);
  Decoder next = nullptr;
};
inline constexpr Step done{};

}  // namespace rdmawire
