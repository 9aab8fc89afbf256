#pragma once
/// Decodes bytes into a header stack.

#include <array>
#include <cstdint>
#include <string_view>
#include <tl/expected.hpp>

#include "dissectors/protocol/stack.hpp"

namespace rdmawire {

/// Options of decode() that packets do not contain.
struct DecodeOptions {
  static constexpr std::uint16_t roce_v2_udp_port = 4791;
  /// Another UDP destination port of RoCEv2, in addition to 4791. 0: none.
  std::uint16_t extra_roce_v2_port = 0;
  /// True: recognizes MRC. False: decodes its packets as a BTH with payload, because other manufacturers can use the
  /// same opcodes.
  bool mrc = true;
};

/// Disables the protocol with this name. The only one is "mrc". Returns false for other names.
inline bool disable_protocol(DecodeOptions& options, std::string_view name) {
  if (name != "mrc") return false;
  options.mrc = false;
  return true;
}

/// Decodes a packet from its link layer to its payload. Decodes invalid packets as far as possible, and adds a finding
/// where decoding stops. A packet that the capture truncated (`wire_length` > bytes.size()) is not malformed. Does not
/// allocate memory. `bytes` must outlive the stack.
void decode(HeaderStack& stack, Bytes bytes, LinkType link, std::uint32_t wire_length, const DecodeOptions& = {});

namespace plain {
/// Decodes like decode(), but without its fast path. For tests.
void decode(HeaderStack& stack, Bytes bytes, LinkType link, std::uint32_t wire_length, const DecodeOptions& = {});
}  // namespace plain

inline HeaderStack decode(Bytes bytes, LinkType link = LinkType::ethernet, const DecodeOptions& options = {}) {
  HeaderStack stack;
  decode(stack, bytes, link, static_cast<std::uint32_t>(bytes.size()), options);
  return stack;
}

/// Decodes like decode(), but returns the first finding as an error. For tests with complete packets.
tl::expected<HeaderStack, ParseError> decode_strict(Bytes bytes, LinkType link = LinkType::ethernet,
                                                    const DecodeOptions& = {});

/// Decodes an InfiniBand transport packet from the BTH on, without lower layers. If `with_icrc` is true, the bytes end
/// with the ICRC, unless they are too short.
HeaderStack decode_transport(Bytes bytes, bool with_icrc = false);

}  // namespace rdmawire
