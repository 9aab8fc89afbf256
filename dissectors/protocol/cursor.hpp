#pragma once
/// What the decoders of the families share: a cursor over a packet, and the step from one header to the next.

#include "dissectors/protocol/stack.hpp"

namespace rdmawire {

struct DecodeOptions;

/// Where decoding stands. `end` is the innermost limit that a length field set, never beyond what was captured;
/// `declared_end` is the same limit before it was cut to the capture.
struct Cursor {
  HeaderStack& stack;
  const DecodeOptions& options;
  std::uint32_t at = 0;
  std::uint32_t end = 0;
  std::uint32_t declared_end = 0;

  [[nodiscard]] const std::uint8_t* here() const { return stack.bytes.data() + at; }
  [[nodiscard]] std::uint32_t left() const { return end - at; }

  /// Whether `bytes` are there for `header`; else a finding: truncated where only the capture ended, malformed where
  /// a length field left too little room.
  bool need(const HeaderInfo& header, std::uint32_t bytes) {
    if (left() >= bytes) return true;
    lack(header, bytes);
    return false;
  }
  void lack(const HeaderInfo& header, std::uint32_t bytes);
  void malformed(const HeaderInfo& header, std::string_view what, std::uint32_t needed = 0, std::uint32_t had = 0) {
    stack.report({ParseError::Kind::malformed, &header, at, needed, had, what});
  }
  /// Takes `bytes` that need() has granted as a layer.
  bool take(const HeaderInfo& header, std::uint32_t bytes) {
    if (!stack.push(header, at, bytes)) return false;
    at += bytes;
    return true;
  }
  /// A length field says that what is being decoded ends `bytes` after `from`. False, with a finding, when that
  /// exceeds the layer around it; then the layer around it stays the limit.
  bool limit(const HeaderInfo& header, std::uint32_t from, std::uint64_t bytes) {
    if (from + bytes > declared_end) {
      malformed(header, "the length field exceeds what surrounds it",
                static_cast<std::uint32_t>(std::min<std::uint64_t>(bytes, UINT32_MAX)), declared_end - from);
      return false;
    }
    declared_end = static_cast<std::uint32_t>(from + bytes);
    if (declared_end < end) end = declared_end;
    return true;
  }
  /// The same for a network header, whose length may truly exceed the frame: a packet that was cut before it was
  /// captured. Then the packet counts as cut, with a finding.
  void datagram(const HeaderInfo& header, std::uint32_t from, std::uint64_t bytes) {
    const auto had = declared_end - from;
    declared_end = static_cast<std::uint32_t>(from + bytes);
    if (bytes <= had) {
      end = std::min(end, declared_end);
      return;
    }
    stack.cut = true;
    stack.report({ParseError::Kind::truncated, &header, from, static_cast<std::uint32_t>(bytes), had,
                  "the packet was cut before it was captured, or its length lies"});
  }
  /// All that is left is payload.
  void payload() { stack.payload = {at, left()}; }
};

/// A decoder of one header, and the one to call next; null when the packet is done.
struct Step {
  using Decoder = Step (*)(Cursor&);
  Decoder next = nullptr;
};
inline constexpr Step done{};

}  // namespace rdmawire
