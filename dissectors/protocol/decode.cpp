#include "dissectors/protocol/decode.hpp"

#include "dissectors/protocol/cursor.hpp"
#include "dissectors/protocol/ethernet.hpp"
#include "dissectors/protocol/infiniband.hpp"
#include "dissectors/protocol/ip.hpp"
#include "dissectors/protocol/transport.hpp"

namespace rdmawire {

void Cursor::lack(const HeaderInfo& header, std::uint32_t bytes) {
  const bool cut = at + bytes <= declared_end;
  if (cut) {
    stack.report(ParseError::truncated(header, at, bytes, left()));
    stack.cut = true;
  } else {
    malformed(header, "a length field leaves too few bytes for the header", bytes, left());
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

void decode_by_steps(HeaderStack& stack, LinkType link, const DecodeOptions& options) {
  const auto captured = static_cast<std::uint32_t>(stack.bytes.size());
  Cursor c{stack, options, 0, captured, stack.wire_length};
  Step step = first_step(link);
  if (!step.next) {
    stack.report({ParseError::Kind::unknown, nullptr, 0, 0, 0, "unsupported link type"});
    c.payload();
    return;
  }
  // Each step consumes bytes or ends the packet, and the number of layers is limited, so this terminates.
  while (step.next) step = step.next(c);
  stack.cut |= c.end < c.declared_end;
}

// Fast path for common RoCEv2 packets: Ethernet, IPv4 without options, UDP to port 4791, BTH and extension headers, all
// complete and consistent. Decodes them into the same stack as the decoding steps. Returns false for other packets,
// which must be decoded step by step.
bool decode_common(HeaderStack& stack, Bytes bytes) {
  constexpr std::uint32_t ip_at = Ethernet::size, udp_at = ip_at + Ipv4::size, bth_at = udp_at + Udp::size;
  constexpr std::uint32_t headers = bth_at + Bth::size, icrc_bytes = 4;
  if (bytes.size() < headers + icrc_bytes) return false;
  const std::uint8_t* p = bytes.data();
  const View<Ipv4> ip(p + ip_at);
  const View<Udp> udp(p + udp_at);
  const View<Bth> bth(p + bth_at);
  const std::uint32_t total = ip.get<"total_length">();
  const bool common = View<Ethernet>(p).get<"type">() == ethertype::ipv4 && ip.get<"version">() == 4 &&
                      ip.get<"header_length">() * 4U == Ipv4::size && !ip.get<"mf">() &&
                      ip.get<"fragment_offset">() == 0 && ip.get<"protocol">() == ip_protocol::udp &&
                      udp.get<"dst_port">() == DecodeOptions::roce_v2_udp_port &&
                      udp.get<"length">() + Ipv4::size == total && ip_at + total <= bytes.size();
  if (!common) return false;
  const Opcode& op = opcode(bth.get<"opcode">());
  const std::uint32_t pad = bth.get<"pad">();
  const std::uint32_t payload_at = headers + op.header_bytes, icrc_at = ip_at + total - icrc_bytes;
  // Opcodes of RD may belong to a vendor's transport, and QPs 0 and 1 receive management datagrams. Such packets are
  // decoded step by step.
  if (!op.known || op.transport == Transport::rd || bth.get<"dest_qp">() <= 1 || payload_at + pad > icrc_at)
    return false;

  stack.assign({Layer{&info<Ethernet>, 0, Ethernet::size}, Layer{&info<Ipv4>, ip_at, Ipv4::size},
                Layer{&info<Udp>, udp_at, Udp::size}, Layer{&info<Bth>, bth_at, Bth::size}});
  stack.wire = Wire::roce_v2;
  stack.network = 1;
  stack.transport = 3;
  std::uint32_t at = headers;
  for (const HeaderInfo* header : op.extension_headers()) {
    stack.push(*header, at, header->size);
    at += header->size;
  }
  stack.payload = {payload_at, icrc_at - pad - payload_at};
  if (pad) stack.pad = {icrc_at - pad, pad};
  stack.icrc = {icrc_at, icrc_bytes};
  return true;
}

}  // namespace

void decode(HeaderStack& stack, Bytes bytes, LinkType link, std::uint32_t wire_length, const DecodeOptions& options) {
  const auto captured = static_cast<std::uint32_t>(bytes.size());
  stack.reset(bytes, std::max(wire_length, captured));
  if (link == LinkType::ethernet && decode_common(stack, bytes)) return;
  decode_by_steps(stack, link, options);
}

void plain::decode(HeaderStack& stack, Bytes bytes, LinkType link, std::uint32_t wire_length,
                   const DecodeOptions& options) {
  stack.reset(bytes, std::max(wire_length, static_cast<std::uint32_t>(bytes.size())));
  decode_by_steps(stack, link, options);
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
  // Without the network headers, the position of the ICRC is known, but the ICRC cannot be verified.
  const DecodeOptions options;
  // If no space for an ICRC is left after the BTH, the packet has none.
  const std::uint32_t end = with_icrc && size >= Bth::size + 4 ? size - 4 : size;
  Cursor c{stack, options, 0, end, end};
  stack.fragment = true;
  Step step{decode_bth};
  while (step.next) step = step.next(c);
  return stack;
}

}  // namespace rdmawire
