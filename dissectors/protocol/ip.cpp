#include "dissectors/protocol/ip.hpp"

#include "dissectors/protocol/encode.hpp"
#include "dissectors/protocol/icmp.hpp"
#include "dissectors/protocol/infiniband.hpp"
#include "dissectors/protocol/options.hpp"
#include "dissectors/protocol/transport.hpp"
#include "dissectors/protocol/tunnel.hpp"

namespace rdmawire {
namespace {

Step decode_extension(Cursor& c);
Step decode_fragment(Cursor& c);
Step decode_authentication(Cursor& c);

struct ProtocolDecoder {
  std::uint8_t protocol;
  Step::Decoder decoder;
  const HeaderInfo* header;
};
constexpr ProtocolDecoder protocol_decoders[] = {
    {ip_protocol::udp, decode_udp, &info<Udp>},
    {ip_protocol::tcp, decode_tcp, &info<Tcp>},
    {ip_protocol::icmp, decode_icmp, &info<Icmp>},
    {ip_protocol::icmpv6, decode_icmpv6, &info<Icmpv6>},
    {ip_protocol::gre, decode_gre, &info<Gre>},
    {ip_protocol::ipv4, decode_ipv4, &info<Ipv4>},
    {ip_protocol::ipv6, decode_ipv6, &info<Ipv6>},
    {ip_protocol::destination, decode_extension, &info<Ipv6Extension>},
    {ip_protocol::hop_by_hop, decode_extension, nullptr},
    {ip_protocol::routing, decode_extension, nullptr},
    {ip_protocol::fragment, decode_fragment, &info<Ipv6Fragment>},
    {ip_protocol::authentication, decode_authentication, &info<Ipv6Authentication>},
};

Step step_for_protocol(Cursor& c, std::uint8_t protocol) {
  for (const ProtocolDecoder& a : protocol_decoders)
    if (a.protocol == protocol) return {a.decoder};
  c.payload();
  return done;
}

// Decodes a fragment after the first one: its bytes are from inside a datagram.
Step fragment_payload(Cursor& c) {
  c.payload();
  return done;
}

Step decode_extension(Cursor& c) {
  if (!c.need(info<Ipv6Extension>, Ipv6Extension::size)) return done;
  const View<Ipv6Extension> header(c.here());
  const std::uint32_t bytes = 8 + 8U * header.get<"length">();
  if (!c.need(info<Ipv6Extension>, bytes)) return done;
  const std::uint8_t protocol = header.get<"next_header">();
  if (!c.take(info<Ipv6Extension>, bytes)) return done;
  return step_for_protocol(c, protocol);
}

Step decode_fragment(Cursor& c) {
  if (!c.need(info<Ipv6Fragment>, Ipv6Fragment::size)) return done;
  const View<Ipv6Fragment> header(c.here());
  const std::uint8_t protocol = header.get<"next_header">();
  const bool first = header.get<"offset">() == 0;
  c.stack.fragment |= !first || header.get<"more">();
  if (!c.take(info<Ipv6Fragment>, Ipv6Fragment::size)) return done;
  return first ? step_for_protocol(c, protocol) : Step{fragment_payload};
}

Step decode_authentication(Cursor& c) {
  if (!c.need(info<Ipv6Authentication>, Ipv6Authentication::size)) return done;
  const View<Ipv6Authentication> header(c.here());
  const std::uint32_t bytes = 4 * (header.get<"length">() + 2U);
  if (bytes < Ipv6Authentication::size) {
    c.malformed(info<Ipv6Authentication>, "the header length is shorter than the header", Ipv6Authentication::size,
                bytes);
    c.payload();
    return done;
  }
  if (!c.need(info<Ipv6Authentication>, bytes)) return done;
  const std::uint8_t protocol = header.get<"next_header">();
  if (!c.take(info<Ipv6Authentication>, bytes)) return done;
  return step_for_protocol(c, protocol);
}

// Sets the protocol number according to the next layer, unless the caller set it. If there is no next layer and no
// bytes follow, replaces 0 by 59 (no next header).
void announce(FrameLayout& frame, std::size_t index, std::string_view field) {
  HeaderValue& header = frame.at(index);
  const HeaderInfo* next = frame.next(index);
  const std::uint64_t present = header.get(*header.header().find(field));
  // Several protocol numbers denote IPv6 extension headers, so a number that already denotes one is kept.
  const bool announced_already =
      next == &info<Ipv6Extension> && (present == ip_protocol::hop_by_hop || present == ip_protocol::routing);
  if (next && !announced_already)
    header.fill(field, ip_protocol_of(next));
  else if (!next && present == 0 && frame.bytes_after(index) == 0)
    header.fill(field, ip_protocol::none);
}

}  // namespace

std::uint8_t ip_protocol_of(const HeaderInfo* next) {
  for (const ProtocolDecoder& a : protocol_decoders)
    if (a.header && a.header == next) return a.protocol;
  return ip_protocol::none;
}

Step decode_ipv4(Cursor& c) {
  if (!c.need(info<Ipv4>, Ipv4::size)) return done;
  const View<Ipv4> ip(c.here());
  const std::uint32_t from = c.at, header = 4U * ip.get<"header_length">();
  if (ip.get<"version">() != 4) {
    c.malformed(info<Ipv4>, "the version is not 4");
    c.payload();
    return done;
  }
  if (header < Ipv4::size) {
    c.malformed(info<Ipv4>, "the header length is shorter than the header", Ipv4::size, header);
    c.payload();
    return done;
  }
  if (!c.need(info<Ipv4>, header)) return done;
  // Captured packets have a total length of 0 if the sender uses segmentation offload: the datagram ends at the end of
  // the frame.
  const std::uint32_t total = ip.get<"total_length">();
  if (total != 0 && total < header)
    c.malformed(info<Ipv4>, "the total length is shorter than the header", header, total);
  else if (total != 0)
    c.datagram(info<Ipv4>, from, total);
  c.stack.network = static_cast<std::uint8_t>(c.stack.layers().size());
  if (!c.take(info<Ipv4>, header)) return done;
  const std::uint16_t offset = ip.get<"fragment_offset">();
  c.stack.fragment = offset != 0 || ip.get<"mf">();
  if (offset != 0) return {fragment_payload};
  const std::uint8_t protocol = ip.get<"protocol">();
  if (protocol == ip_protocol::udp) return {decode_udp};
  return step_for_protocol(c, protocol);
}

Step decode_ipv6(Cursor& c) {
  if (!c.need(info<Ipv6>, Ipv6::size)) return done;
  const View<Ipv6> ip(c.here());
  if (ip.get<"version">() != 6) {
    c.malformed(info<Ipv6>, "the version is not 6");
    c.payload();
    return done;
  }
  const std::uint32_t from = c.at, length = ip.get<"payload_length">();
  // The length is 0 in a jumbogram, and with segmentation offload.
  if (length != 0) c.datagram(info<Ipv6>, from, Ipv6::size + length);
  c.stack.network = static_cast<std::uint8_t>(c.stack.layers().size());
  c.stack.fragment = false;
  if (!c.take(info<Ipv6>, Ipv6::size)) return done;
  return step_for_protocol(c, ip.get<"next_header">());
}

Step decode_raw_ip(Cursor& c) {
  if (!c.need(info<Ipv4>, 1)) return done;
  return {*c.here() >> 4 == 6 ? decode_ipv6 : decode_ipv4};
}

Parts Ipv4::parts(Bytes header) {
  return parts_of_options(header, Ipv4::size, info<Ipv4OptionByte>, info<Ipv4Option>,
                          [](Parts& parts, std::uint8_t, std::uint32_t at, std::uint32_t bytes) {
                            parts.add(info<Ipv4Option>, at, bytes);
                          });
}

void Ipv4::fill(FrameLayout& frame, std::size_t index) {
  HeaderValue& ip = frame.at(index);
  ip.fill("version", 4);
  ip.fill("header_length", ip.bytes().size() / 4);
  ip.fill("total_length", frame.bytes_from(index));
  ip.fill("ttl", 64);
  announce(frame, index, "protocol");
  if (!ip.given("checksum")) {
    const Field& checksum = *info<Ipv4>.find("checksum");
    checksum.store(ip.mutable_bytes().data(), 0);
    checksum.store(ip.mutable_bytes().data(), internet_checksum(ip.bytes()));
  }
}

void Ipv6::fill(FrameLayout& frame, std::size_t index) {
  HeaderValue& ip = frame.at(index);
  ip.fill("version", 6);
  ip.fill("payload_length", frame.bytes_after(index));
  ip.fill("hop_limit", 64);
  announce(frame, index, "next_header");
}

void Ipv6Extension::fill(FrameLayout& frame, std::size_t index) {
  HeaderValue& header = frame.at(index);
  announce(frame, index, "next_header");
  header.fill("length", header.bytes().size() / 8 - 1);
}

void Ipv6Authentication::fill(FrameLayout& frame, std::size_t index) {
  HeaderValue& header = frame.at(index);
  announce(frame, index, "next_header");
  header.fill("length", header.bytes().size() / 4 - 2);
}

void Ipv6Fragment::fill(FrameLayout& frame, std::size_t index) { announce(frame, index, "next_header"); }

}  // namespace rdmawire
