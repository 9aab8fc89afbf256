#include "conformance/device/roce/packet.hpp"

#include <algorithm>

#include "conformance/device/roce/core.hpp"
#include "dissectors/protocol/crc.hpp"
#include "dissectors/protocol/decode.hpp"
#include "dissectors/protocol/encode.hpp"
#include "dissectors/protocol/infiniband.hpp"
#include "dissectors/protocol/transport.hpp"

namespace rdmawire::device {

namespace {

Gid gid_of(const std::array<std::uint8_t, 16>& bytes) { return {bytes}; }

Mac mac_of(const std::uint8_t* p) {
  Mac mac;
  std::copy_n(p, mac.size(), mac.begin());
  return mac;
}

/// Read the Ethernet header and the VLAN tag, if any. `next`: set to the index of the layer after them.
Refusal read_ethernet(Packet& packet, const HeaderStack& stack, const Port& port, std::size_t& next) {
  const auto layers = stack.layers();
  if (layers.empty() || layers[0].header != &info<Ethernet>) return Refusal::not_roce;
  const View<Ethernet> ethernet(stack.bytes.data());
  const Mac to = mac_of(stack.bytes.data());
  if (to != port.mac && (to[0] & 1) == 0) return Refusal::not_ours;
  packet.source_mac = mac_of(stack.bytes.data() + 6);
  next = 1;
  std::uint16_t type = ethernet.get<"type">();
  if (layers.size() > next && layers[next].header == &info<Vlan>) {
    const View<Vlan> tag(stack.bytes.data() + layers[next].offset);
    packet.vlan = tag.get<"id">();
    packet.sl = tag.get<"priority">();
    type = tag.get<"type">();
    ++next;
  }
  if (type != ethertype::ipv4 && type != ethertype::ipv6 && type != ethertype::roce_v1) return Refusal::not_roce;
  // IP version and EtherType must agree: CA17-27. If they differ, the decoder stops here.
  return layers.size() > next ? Refusal::none : Refusal::malformed;
}

/// Check the IPv4 header. `available`: number of bytes from the header to the end of the frame.
Refusal read_ipv4(const DecodingDecisions& decisions, Packet& packet, std::uint32_t available) {
  const View<Ipv4> ip(packet.network.data());
  if (ip.get<"protocol">() != ip_protocol::udp) return Refusal::not_roce;
  packet.is_ipv4 = true;
  packet.sgid = Gid::ipv4(ip.get<"src">());
  packet.dgid = Gid::ipv4(ip.get<"dst">());
  packet.traffic_class = ip.get<"tos">();
  if (ip.get<"total_length">() > available || ip.get<"total_length">() < packet.network.size() + Udp::size)
    return Refusal::malformed;
  if (internet_checksum(packet.network) != 0) return Refusal::malformed;
  if (!decisions.accepts_header_length(packet) || !decisions.accepts_fragmentation(packet)) return Refusal::malformed;
  // Reject fragments: CA17-8.
  return ip.get<"mf">() || ip.get<"fragment_offset">() != 0 ? Refusal::malformed : Refusal::none;
}

Refusal read_ipv6(const DecodingDecisions& decisions, Packet& packet, std::uint32_t available) {
  if (!decisions.supports_ipv6()) return Refusal::not_ours;
  const View<Ipv6> ip(packet.network.data());
  if (ip.get<"next_header">() != ip_protocol::udp) return Refusal::not_roce;
  packet.sgid = gid_of(ip.get<"src">());
  packet.dgid = gid_of(ip.get<"dst">());
  packet.traffic_class = ip.get<"traffic_class">();
  return Ipv6::size + std::uint32_t{ip.get<"payload_length">()} > available ? Refusal::malformed : Refusal::none;
}

Refusal read_grh(Packet& packet, std::uint32_t available) {
  const View<Grh> grh(packet.network.data());
  packet.type = GidType::roce_v1;
  packet.sgid = gid_of(grh.get<"sgid">());
  packet.dgid = gid_of(grh.get<"dgid">());
  packet.traffic_class = grh.get<"traffic_class">();
  const bool valid = grh.get<"version">() == 6 && grh.get<"next_header">() == Grh::next_is_bth &&
                     Grh::size + std::uint32_t{grh.get<"payload_length">()} <= available;
  return valid ? Refusal::none : Refusal::malformed;
}

/// Check the UDP header. Its length must be that of the IP packet without the IP header: CA17-20, CA17-21.
Refusal read_udp(const Packet& packet, const View<Udp>& udp) {
  if (udp.get<"dst_port">() != DecodeOptions::roce_v2_udp_port) return Refusal::not_roce;
  const std::uint8_t* ip = packet.network.data();
  const std::size_t datagram = packet.is_ipv4 ? View<Ipv4>(ip).get<"total_length">() - packet.network.size()
                                              : std::size_t{View<Ipv6>(ip).get<"payload_length">()};
  return udp.get<"length">() == datagram ? Refusal::none : Refusal::malformed;
}

/// Check and decode the layers up to the BTH. Tunnels and IPv6 extension headers are rejected.
Refusal read_network(const Core& core, Packet& packet, const HeaderStack& stack) {
  const auto layers = stack.layers();
  std::size_t next = 0;
  if (const Refusal refusal = read_ethernet(packet, stack, core.port, next); refusal != Refusal::none) return refusal;
  const Layer& network = layers[next++];
  packet.network = stack.bytes_of(network);
  const std::uint32_t available = static_cast<std::uint32_t>(stack.bytes.size()) - network.offset;
  Refusal refusal = Refusal::not_roce;
  if (network.header == &info<Ipv4>) refusal = read_ipv4(core.decisions.decoding, packet, available);
  if (network.header == &info<Ipv6>) refusal = read_ipv6(core.decisions.decoding, packet, available);
  if (network.header == &info<Grh>) refusal = read_grh(packet, available);
  if (refusal != Refusal::none) return refusal;
  if (packet.type == GidType::roce_v2) {
    if (layers.size() <= next || layers[next].header != &info<Udp>) return Refusal::malformed;
    refusal = read_udp(packet, View<Udp>(stack.bytes.data() + layers[next++].offset));
    if (refusal != Refusal::none) return refusal;
  }
  return layers.size() > next && layers[next].header == &info<Bth> ? Refusal::none : Refusal::malformed;
}

void read_transport(Packet& packet, const HeaderStack& stack) {
  PacketFields& to = packet.fields;
  const auto bth = *stack.get<Bth>();
  to.opcode = bth.get<"opcode">();
  packet.op = &opcode(to.opcode);
  to.solicited = bth.get<"se">();
  to.migrated = bth.get<"migreq">();
  packet.tver = bth.get<"tver">();
  to.pkey = bth.get<"pkey">();
  to.fecn = bth.get<"fecn">();
  to.becn = bth.get<"becn">();
  to.dest_qpn = bth.get<"dest_qp">();
  to.ack_request = bth.get<"ack_request">();
  to.psn = Psn(bth.get<"psn">());
  packet.reserved_bits = to.fecn || to.becn || bth.get<"reserved">() != 0 || bth.get<"reserved2">() != 0;
  if (const auto h = stack.get<Reth>()) {
    to.va = h->get<"va">();
    to.rkey = h->get<"rkey">();
    to.length = h->get<"length">();
  }
  if (const auto h = stack.get<AtomicEth>()) {
    to.va = h->get<"va">();
    to.rkey = h->get<"rkey">();
    to.swap_add = h->get<"swap_add">();
    to.compare = h->get<"compare">();
  }
  if (const auto h = stack.get<Feth>()) {
    to.placement = h->get<"placement">();
    to.selectivity = h->get<"selectivity">();
  }
  if (const auto h = stack.get<ImmDt>()) to.immediate = h->get<"data">();
  if (const auto h = stack.get<Ieth>()) to.immediate = h->get<"rkey">();
  if (const auto h = stack.get<Xrceth>()) to.xrc_srq = h->get<"xrcsrq">();
  if (const auto h = stack.get<Deth>()) {
    to.qkey = h->get<"qkey">();
    to.source_qpn = h->get<"src_qp">();
  }
  if (const auto h = stack.get<Aeth>()) {
    to.syndrome = h->get<"syndrome">();
    to.msn = h->get<"msn">();
  }
  if (const auto h = stack.get<Cnp>())
    to.cnp_reserved = static_cast<std::uint8_t>(h->get<"reserved">() != 0 || h->get<"reserved2">() != 0);
  if (const auto h = stack.get<AtomicAckEth>()) to.original = h->get<"original">();
}

/// Return the bytes between extension headers and ICRC, without the pad. They include the headers of a management
/// datagram.
Bytes payload_of(const DecodingDecisions& decisions, const Packet& packet, const HeaderStack& stack) {
  const Layer* bth = stack.find(info<Bth>);
  const std::uint32_t from = bth->offset + bth->length + packet.op->header_bytes;
  const std::uint32_t to = stack.icrc.offset - decisions.pad_of(View<Bth>(stack.bytes.data() + bth->offset));
  return from <= to ? stack.bytes.subspan(from, to - from) : Bytes{};
}

/// True if the packet is too short for its headers or its pad. Ignores errors in management datagrams, and unknown
/// opcodes.
bool is_too_short(const DecodingDecisions& decisions, const Packet& packet, const HeaderStack& stack) {
  for (const ParseError& finding : stack.findings()) {
    const auto extensions = packet.op->extension_headers();
    const bool transport =
        finding.layer == &info<Bth> || std::ranges::find(extensions, finding.layer) != extensions.end();
    const bool below = finding.layer == &info<Udp> || finding.layer == &info<Ipv4> || finding.layer == &info<Ipv6> ||
                       finding.layer == &info<Grh>;
    if (below || (transport && decisions.is_malformed(finding))) return true;
  }
  return stack.icrc.length == 0;
}

HeaderValue extension(const HeaderInfo& header, const PacketFields& from) {
  if (&header == &info<Reth>) return Value<Reth>().set<"va">(from.va).set<"rkey">(from.rkey).set<"length">(from.length);
  if (&header == &info<AtomicEth>)
    return Value<AtomicEth>()
        .set<"va">(from.va)
        .set<"rkey">(from.rkey)
        .set<"swap_add">(from.swap_add)
        .set<"compare">(from.compare);
  if (&header == &info<Feth>)
    return Value<Feth>().set<"placement">(from.placement).set<"selectivity">(from.selectivity);
  if (&header == &info<ImmDt>) return Value<ImmDt>().set<"data">(from.immediate);
  if (&header == &info<Ieth>) return Value<Ieth>().set<"rkey">(from.immediate);
  if (&header == &info<Xrceth>) return Value<Xrceth>().set<"xrcsrq">(from.xrc_srq);
  if (&header == &info<Deth>) return Value<Deth>().set<"qkey">(from.qkey).set<"src_qp">(from.source_qpn);
  if (&header == &info<Aeth>) return Value<Aeth>().set<"syndrome">(from.syndrome).set<"msn">(from.msn);
  if (&header == &info<AtomicAckEth>) return Value<AtomicAckEth>().set<"original">(from.original);
  HeaderValue value(header);
  if (&header == &info<Cnp>) value.mutable_bytes()[0] = from.cnp_reserved;
  return value;
}

/// Return the DSCP of the address vector, in the bits of the traffic class.
unsigned dscp_of(const AddressVector& path) { return path.traffic_class & 0xfcU; }

/// CA17-3 to CA17-12.
HeaderValue ipv4_header(const OutgoingPacket& packet, const GidEntry& source) {
  return Value<Ipv4>()
      .set<"tos">(dscp_of(packet.path) | packet.ecn)
      .set<"df">(true)
      .set<"ttl">(packet.path.hop_limit)
      .set<"src">(source.gid.ipv4_address())
      .set<"dst">(packet.path.dgid.ipv4_address());
}

/// CA17-13 to CA17-19.
HeaderValue ipv6_header(const OutgoingPacket& packet, const GidEntry& source) {
  return Value<Ipv6>()
      .set<"traffic_class">(dscp_of(packet.path) | packet.ecn)
      .set<"flow_label">(packet.path.flow_label)
      .set<"hop_limit">(packet.path.hop_limit)
      .set<"src">(Bytes(source.gid.bytes))
      .set<"dst">(Bytes(packet.path.dgid.bytes));
}

HeaderValue grh(const OutgoingPacket& packet, const GidEntry& source) {
  return Value<Grh>()
      .set<"traffic_class">(dscp_of(packet.path))
      .set<"flow_label">(packet.path.flow_label)
      .set<"hop_limit">(packet.path.hop_limit)
      .set<"sgid">(Bytes(source.gid.bytes))
      .set<"dgid">(Bytes(packet.path.dgid.bytes));
}

}  // namespace

std::optional<std::vector<std::uint8_t>> make_frame(const OutgoingPacket& packet, const Port& port,
                                                    const EncodingDecisions& decisions) {
  if (packet.path.sgid_index >= port.gids.size()) return std::nullopt;
  GidEntry source = port.gids[packet.path.sgid_index];
  const auto mac = port.mac_of(packet.path.dgid);
  if (source.gid.is_zero() || !mac) return std::nullopt;
  source.type = decisions.version_of(source);
  Frame frame;
  frame /= Value<Ethernet>().set<"dst">(load_be(mac->data(), 6)).set<"src">(load_be(port.mac.data(), 6));
  if (source.vlan != 0) frame /= decisions.vlan_tag(packet, source);
  frame /= decisions.network_header(packet, source);
  if (source.type == GidType::roce_v2) frame /= decisions.udp_header(packet);
  frame /= decisions.base_header(packet.fields);
  for (HeaderValue& header : decisions.extension_headers(packet.fields)) frame /= std::move(header);
  frame.payload = packet.payload;
  return decisions.encode(frame);
}

std::optional<std::vector<std::uint8_t>> make_frame(const OutgoingPacket& packet, const Port& port) {
  static const EncodingDecisions conforming;
  return make_frame(packet, port, conforming);
}

namespace conforming {

GidType version_of(const GidEntry& source) { return source.type; }

HeaderValue vlan_tag(const OutgoingPacket& packet, const GidEntry& source) {
  return Value<Vlan>().set<"priority">(packet.path.sl & 7U).set<"id">(source.vlan);
}

HeaderValue network_header(const OutgoingPacket& packet, const GidEntry& source) {
  if (source.type == GidType::roce_v1) return grh(packet, source);
  return source.gid.is_ipv4() ? ipv4_header(packet, source) : ipv6_header(packet, source);
}

HeaderValue udp_header(const OutgoingPacket& packet) { return Value<Udp>().set<"src_port">(packet.source_port); }

HeaderValue base_header(const PacketFields& from) {
  return Value<Bth>()
      .set<"opcode">(from.opcode)
      .set<"se">(from.solicited)
      .set<"migreq">(from.migrated)
      .set<"pkey">(from.pkey)
      .set<"dest_qp">(from.dest_qpn)
      .set<"ack_request">(from.ack_request)
      .set<"psn">(from.psn.value());
}

std::vector<HeaderValue> extension_headers(const PacketFields& from) {
  std::vector<HeaderValue> headers;
  for (const HeaderInfo* header : opcode(from.opcode).extension_headers()) headers.push_back(extension(*header, from));
  return headers;
}

std::vector<std::uint8_t> encode(const Frame& frame) { return frame.encode(); }

Refusal read_packet(const Core& core, Packet& packet, Bytes frame) {
  const DecodingDecisions& decisions = core.decisions.decoding;
  HeaderStack stack;
  decode(stack, frame, LinkType::ethernet, static_cast<std::uint32_t>(frame.size()));
  if (const Refusal refusal = read_network(core, packet, stack); refusal != Refusal::none) return refusal;
  packet.op = &opcode(stack.get<Bth>()->get<"opcode">());
  if (is_too_short(decisions, packet, stack)) return Refusal::malformed;
  read_transport(packet, stack);
  packet.payload = payload_of(decisions, packet, stack);
  return decisions.has_valid_icrc(packet, stack) ? Refusal::none : Refusal::icrc;
}

bool supports_ipv6() { return true; }

bool accepts_header_length(const Packet& packet) { return packet.network.size() == Ipv4::size; }

bool accepts_fragmentation(const Packet& packet) { return View<Ipv4>(packet.network.data()).get<"df">(); }

bool is_malformed(const ParseError& error) { return error.kind != ParseError::Kind::unknown; }

std::uint32_t pad_of(const View<Bth>& bth) { return bth.get<"pad">(); }

bool has_valid_icrc(const Packet& /*packet*/, const HeaderStack& stack) {
  return check_icrc(stack).status == CrcCheck::Status::good;
}

}  // namespace conforming

}  // namespace rdmawire::device
