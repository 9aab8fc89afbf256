#include "dissectors/protocol/decode.hpp"

#include "dissectors/protocol/cursor.hpp"
#include "dissectors/protocol/ethernet.hpp"
#include "dissectors/protocol/infiniband.hpp"
#include "dissectors/protocol/ip.hpp"

namespace rdmawire {

void Cursor::lack(const HeaderInfo& header, std::uint32_t octets) {
  const bool cut = at + octets <= declared_end;
  if (cut) {
    stack.report(ParseError::truncated(header, at, octets, left()));
    stack.cut = true;
  } else {
    malformed(header, "a length field leaves too little room for the header", octets, left());
  }
}

namespace {

Step first_step(LinkType link) {
  switch (link) {
    case LinkType::ethernet: return {decode_ethernet};
    case LinkType::raw_ip: return {decode_raw_ip};
    case LinkType::ipv4: return {decode_ipv4};
    case LinkType::ipv6: return {decode_ipv6};
    case LinkType::linux_sll: return {decode_linux_sll};
    case LinkType::linux_sll2: return {decode_linux_sll2};
    case LinkType::null_loopback: return {decode_null_loopback};
    case LinkType::erf: return {decode_erf};
    case LinkType::infiniband: return {decode_lrh};
  }
  return done;
}

}  // namespace

void decode(HeaderStack& stack, Bytes bytes, LinkType link, std::uint32_t wire_length, const DecodeOptions& options) {
  const auto captured = static_cast<std::uint32_t>(bytes.size());
  stack.reset(bytes, std::max(wire_length, captured));
  Cursor c{stack, options, 0, captured, stack.wire_length};
  Step step = first_step(link);
  if (!step.next) {
    stack.report({ParseError::Kind::unknown, nullptr, 0, 0, 0, "a link type that is not known here"});
    c.payload();
    return;
  }
  // Every step takes octets or ends the packet, and layers are bounded, so this ends.
  while (step.next) step = step.next(c);
  stack.cut |= c.end < c.declared_end;
}

tl::expected<HeaderStack, ParseError> decode_strict(Bytes bytes, LinkType link, const DecodeOptions& options) {
  HeaderStack stack = decode(bytes, link, options);
  if (!stack.findings().empty()) return tl::unexpected(stack.findings().front());
  return stack;
}

HeaderStack decode_transport(Bytes bytes, bool with_icrc) {
  HeaderStack stack;
  const auto size = static_cast<std::uint32_t>(bytes.size());
  stack.reset(bytes, size);
  // Without its network headers an ICRC cannot be judged, so it is only set apart.
  const DecodeOptions options;
  const std::uint32_t end = with_icrc && size >= 4 ? size - 4 : size;
  Cursor c{stack, options, 0, end, end};
  stack.fragment = true;
  Step step{decode_bth};
  while (step.next) step = step.next(c);
  return stack;
}

}  // namespace rdmawire
