#include "dissectors/protocol/icmp.hpp"

#include "dissectors/protocol/encode.hpp"

namespace rdmawire {
namespace {

// Returns the header of a neighbor discovery option. Link addresses of Ethernet and InfiniBand have different lengths.
const HeaderInfo& header_of(std::uint8_t type, std::uint32_t bytes) {
  if (type == nd_option::source || type == nd_option::target) {
    if (bytes == NdLinkAddress::size) return info<NdLinkAddress>;
    if (bytes == NdIpoibLinkAddress::size) return info<NdIpoibLinkAddress>;
  }
  return info<NdOption>;
}

// Decodes options up to the end of the message.
Step decode_nd_options(Cursor& c) {
  while (c.left() > 0) {
    if (!c.need(info<NdOption>, NdOption::size)) return done;
    const View<NdOption> option(c.here());
    const std::uint32_t bytes = 8U * option.get<"length">();
    if (bytes == 0) {
      c.malformed(info<NdOption>, "an option of length 0", 8, 0);
      break;
    }
    const HeaderInfo& header = header_of(option.get<"type">(), bytes);
    if (!c.need(header, bytes)) return done;
    if (!c.take(header, bytes)) break;
  }
  c.payload();
  return done;
}

}  // namespace

Step decode_icmp(Cursor& c) {
  if (!c.need(info<Icmp>, Icmp::size)) return done;
  const std::uint8_t type = View<Icmp>(c.here()).get<"type">();
  if (!c.take(info<Icmp>, Icmp::size)) return done;
  if ((type == icmp_type::echo_request || type == icmp_type::echo_reply) && c.need(info<IcmpEcho>, IcmpEcho::size))
    c.take(info<IcmpEcho>, IcmpEcho::size);
  c.payload();
  return done;
}

Step decode_icmpv6(Cursor& c) {
  if (!c.need(info<Icmpv6>, Icmpv6::size)) return done;
  const std::uint8_t type = View<Icmpv6>(c.here()).get<"type">();
  if (!c.take(info<Icmpv6>, Icmpv6::size)) return done;
  const HeaderInfo* body = nullptr;
  switch (type) {
    case icmpv6_type::echo_request:
    case icmpv6_type::echo_reply: body = &info<Icmpv6Echo>; break;
    case icmpv6_type::router_solicitation: body = &info<RouterSolicitation>; break;
    case icmpv6_type::router_advertisement: body = &info<RouterAdvertisement>; break;
    case icmpv6_type::neighbor_solicitation: body = &info<NeighborSolicitation>; break;
    case icmpv6_type::neighbor_advertisement: body = &info<NeighborAdvertisement>; break;
    case icmpv6_type::redirect: body = &info<NdRedirect>; break;
    default: break;
  }
  if (body) {
    if (c.need(*body, body->size) && c.take(*body, body->size) && body != &info<Icmpv6Echo>) return {decode_nd_options};
  }
  c.payload();
  return done;
}

void NdOption::fill(FrameLayout& frame, std::size_t index) {
  frame.at(index).fill("length", frame.at(index).bytes().size() / 8);
}
void NdLinkAddress::fill(FrameLayout& frame, std::size_t index) { frame.at(index).fill("length", 1); }
void NdIpoibLinkAddress::fill(FrameLayout& frame, std::size_t index) { frame.at(index).fill("length", 3); }

}  // namespace rdmawire
