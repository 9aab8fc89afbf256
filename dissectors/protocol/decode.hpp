#pragma once
/// Decodes bytes into a header stack.

#include <array>
#include <cstdint>
#include <string_view>
#include <tl/expected.hpp>

#include "dissectors/protocol/stack.hpp"

namespace rdmawire {

/// Decoding options: information that packets do not contain.
struct DecodeOptions {
  static constexpr std::uint16_t roce_v2_udp_port = 4791;
  /// A second UDP destination port of RoCEv2. 0: none.
  std::uint16_t extra_roce_v2_port = 0;
  /// Recognize MRC. Other manufacturers can use the same opcodes: false decodes these packets as a BTH with payload.
  bool mrc = true;
};

/// Disables a protocol by name: "mrc". Returns false if the name is unknown.
inline bool disable_protocol(DecodeOptions& options, std::string_view name) {
  if (name != "mrc") return false;
  options.mrc = false;
  return true;
}

/// Decodes a packet from its link layer to its payload. Lenient: decodes as far as possible and adds a finding
/// where decoding stops. A capture that is truncated (`wire_length` > bytes.size()) is not malformed. Does not
/// allocate memory. `bytes` must outlive the stack.
void decode(HeaderStack& stack, Bytes bytes, LinkType link, std::uint32_t wire_length, const DecodeOptions& = {});

namespace plain {
/// The same without the fast path of decode(), for tests.
void decode(HeaderStack& stack, Bytes bytes, LinkType link, std::uint32_t wire_length, const DecodeOptions& = {});
}  // namespace plain

inline HeaderStack decode(Bytes bytes, LinkType link = LinkType::ethernet, const DecodeOptions& options = {}) {
  HeaderStack stack;
  decode(stack, bytes, link, static_cast<std::uint32_t>(bytes.size()), options);
  return stack;
}

/// The same, but returns the first finding as an error. For tests with complete packets.
tl::expected<HeaderStack, ParseError> decode_strict(Bytes bytes, LinkType link = LinkType::ethernet,
                                                    const DecodeOptions& = {});

/// Decodes InfiniBand's transport from the BTH on, without lower layers. If `with_icrc`, the bytes end with the
/// ICRC, unless they are too short for it.
HeaderStack decode_transport(Bytes bytes, bool with_icrc = false);

}  // namespace rdmawire
