#pragma once
/// From bytes to a header stack.

#include <array>
#include <cstdint>
#include <tl/expected.hpp>

#include "dissectors/protocol/stack.hpp"

namespace rdmawire {

/// What cannot be read from the packet itself.
struct DecodeOptions {
  static constexpr std::uint16_t roce_v2_udp_port = 4791;
  /// A second UDP destination port that carries RoCEv2; 0: none.
  std::uint16_t extra_roce_v2_port = 0;
};

/// Decodes a packet from its link layer to its payload. Lenient: reads as far as it goes, and says in findings() where
/// and why it could not go on; a capture that was cut (`wire_length` > bytes.size()) is not malformed.
/// Does not allocate. `bytes` must outlive the stack.
void decode(HeaderStack& stack, Bytes bytes, LinkType link, std::uint32_t wire_length, const DecodeOptions& = {});

namespace plain {
/// The same without the short way that decode() takes for common packets: what the short way is tested against.
void decode(HeaderStack& stack, Bytes bytes, LinkType link, std::uint32_t wire_length, const DecodeOptions& = {});
}  // namespace plain

inline HeaderStack decode(Bytes bytes, LinkType link = LinkType::ethernet, const DecodeOptions& options = {}) {
  HeaderStack stack;
  decode(stack, bytes, link, static_cast<std::uint32_t>(bytes.size()), options);
  return stack;
}

/// The same, but the first finding is the result: for tests of a packet that must be whole.
tl::expected<HeaderStack, ParseError> decode_strict(Bytes bytes, LinkType link = LinkType::ethernet,
                                                    const DecodeOptions& = {});

/// Decodes InfiniBand's transport from the BTH on, without what lies below it: bytes end with the ICRC when
/// `with_icrc`, unless they have no room for one behind the BTH.
HeaderStack decode_transport(Bytes bytes, bool with_icrc = false);

}  // namespace rdmawire
