#include "conformance/device/packet.hpp"

#include <algorithm>

#include "conformance/device/faults.hpp"
#include "conformance/device/port.hpp"
#include "dissectors/protocol/crc.hpp"
#include "dissectors/protocol/decode.hpp"
#include "dissectors/protocol/encode.hpp"
#include "dissectors/protocol/infiniband.hpp"
#include "dissectors/protocol/transport.hpp"

namespace rdmawire::device {

namespace {

Gid gid_of(const std::array<std::uint8_t, 16>& octets) { return {octets}; }

Mac mac_of(const std::uint8_t* p) {
  Mac mac;
  std::copy_n(p, mac.size(), mac.begin());
  return mac;
}

/// The layers up to the BTH, as they must be: nothing in tunnels, no extension headers.
Refusal read_network(Packet& packet, const HeaderStack& stack, const Port& port) {
  const auto layers = stack.layers();
  if (layers.empty() || layers[0].header != &info<Ethernet>) return Refusal::not_roce;
  const View<Ethernet> ethernet(stack.bytes.data());
  const Mac to = mac_of(stack.bytes.data());
  if (to != port.mac && (to[0] & 1) == 0) return Refusal::not_ours;
  packet.source_mac = mac_of(stack.bytes.data() + 6);
  std::size_t next = 1;
  std::uint16_t type = ethernet.get<"type">();
  std::optional<std::uint16_t> vlan;
  if (layers.size() > next && layers[next].header == &info<Vlan>) {
    const View<Vlan> tag(stack.bytes.data() + layers[next].offset);
    if (tag.get<"id">() != 0) vlan = tag.get<"id">();
    packet.sl = tag.get<"priority">();
    type = tag.get<"type">();
    ++next;
  }
  if (vlan != port.vlan) return Refusal::not_ours;
  if (type != ethertype::ipv4 && type != ethertype::ipv6 && type != ethertype::roce_v1) return Refusal::not_roce;
  // CA17-27: the version and the EtherType agree; decoding stops where they do not.
  if (layers.size() <= next) return Refusal::malformed;
  const Layer& network = layers[next];
  const std::uint8_t* at = stack.bytes.data() + network.offset;
  packet.network = stack.bytes_of(network);
  const std::uint32_t behind = static_cast<std::uint32_t>(stack.bytes.size()) - network.offset;
  if (network.header == &info<Ipv4>) {
    const View<Ipv4> ip(at);
    if (ip.get<"protocol">() != ip_protocol::udp) return Refusal::not_roce;
    packet.is_ipv4 = true;
    packet.sgid = Gid::ipv4(ip.get<"src">());
    packet.dgid = Gid::ipv4(ip.get<"dst">());
    packet.traffic_class = ip.get<"tos">();
    if (ip.get<"total_length">() > behind || ip.get<"total_length">() < network.length + Udp::size)
      return Refusal::malformed;
    if (internet_checksum(packet.network) != 0) return Refusal::malformed;
    if (network.length != Ipv4::size || !ip.get<"df">() || ip.get<"mf">() || ip.get<"fragment_offset">() != 0)
      return Refusal::malformed;
  } else if (network.header == &info<Ipv6>) {
    const View<Ipv6> ip(at);
    if (ip.get<"next_header">() != ip_protocol::udp) return Refusal::not_roce;
    packet.sgid = gid_of(ip.get<"src">());
    packet.dgid = gid_of(ip.get<"dst">());
    packet.traffic_class = ip.get<"traffic_class">();
    if (Ipv6::size + std::uint32_t{ip.get<"payload_length">()} > behind) return Refusal::malformed;
  } else if (network.header == &info<Grh>) {
    const View<Grh> grh(at);
    packet.type = GidType::roce_v1;
    packet.sgid = gid_of(grh.get<"sgid">());
    packet.dgid = gid_of(grh.get<"dgid">());
    packet.traffic_class = grh.get<"traffic_class">();
    if (grh.get<"version">() != 6 || grh.get<"next_header">() != Grh::next_is_bth ||
        Grh::size + std::uint32_t{grh.get<"payload_length">()} > behind)
      return Refusal::malformed;
  } else {
    return Refusal::not_roce;
  }
  ++next;
  if (packet.type == GidType::roce_v2) {
    if (layers.size() <= next || layers[next].header != &info<Udp>) return Refusal::malformed;
    const View<Udp> udp(stack.bytes.data() + layers[next].offset);
    if (udp.get<"dst_port">() != DecodeOptions::roce_v2_udp_port) return Refusal::not_roce;
    const std::uint32_t datagram = packet.is_ipv4 ? View<Ipv4>(at).get<"total_length">() - std::uint32_t{Ipv4::size}
                                                  : std::uint32_t{View<Ipv6>(at).get<"payload_length">()};
    if (udp.get<"length">() != datagram) return Refusal::malformed;
    ++next;
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
  if (const auto h = stack.get<AtomicAckEth>()) to.original = h->get<"original">();
}

/// What lies between the extension headers and the ICRC: a management datagram's own layers are payload here.
Bytes payload_of(const Packet& packet, const HeaderStack& stack) {
  const Layer* bth = stack.find(info<Bth>);
  const std::uint32_t from = bth->offset + bth->length + packet.op->header_octets;
  const std::uint32_t to = stack.icrc.offset - (stack.bytes[bth->offset + 1] >> 4 & 3);
  return from <= to ? stack.bytes.subspan(from, to - from) : Bytes{};
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
  return HeaderValue(header);
}

HeaderValue network_header(const OutgoingPacket& packet, const GidEntry& source) {
  const AddressVector& path = packet.path;
  const auto traffic_class = static_cast<std::uint8_t>((path.traffic_class & 0xfc) | packet.ecn);
  if (source.type == GidType::roce_v1)
    return Value<Grh>()
        .set<"traffic_class">(path.traffic_class)
        .set<"flow_label">(path.flow_label)
        .set<"hop_limit">(path.hop_limit)
        .set<"sgid">(Bytes(source.gid.octets))
        .set<"dgid">(Bytes(path.dgid.octets));
  if (source.gid.is_ipv4())
    return Value<Ipv4>()
        .set<"tos">(traffic_class)
        .set<"df">(1)
        .set<"ttl">(path.hop_limit)
        .set<"src">(source.gid.ipv4_address())
        .set<"dst">(path.dgid.ipv4_address());
  return Value<Ipv6>()
      .set<"traffic_class">(traffic_class)
      .set<"flow_label">(path.flow_label)
      .set<"hop_limit">(path.hop_limit)
      .set<"src">(Bytes(source.gid.octets))
      .set<"dst">(Bytes(path.dgid.octets));
}

}  // namespace

Refusal read_packet(Packet& packet, Bytes frame, const Port& port, const Faults& faults) {
  (void)faults;
  HeaderStack stack;
  decode(stack, frame, LinkType::ethernet, static_cast<std::uint32_t>(frame.size()));
  if (const Refusal refusal = read_network(packet, stack, port); refusal != Refusal::none) return refusal;
  const auto bth = *stack.get<Bth>();
  packet.op = &opcode(bth.get<"opcode">());
  // Too short for its headers, or more pad than payload. A management datagram's own form is not looked at here, nor
  // is an opcode without meaning condemned.
  for (const ParseError& finding : stack.findings()) {
    const bool transport =
        finding.layer == &info<Bth> ||
        std::ranges::find(packet.op->extension_headers(), finding.layer) != packet.op->extension_headers().end();
    const bool below = finding.layer == &info<Udp> || finding.layer == &info<Ipv4> || finding.layer == &info<Ipv6> ||
                       finding.layer == &info<Grh>;
    if (below || (transport && finding.kind != ParseError::Kind::unknown)) return Refusal::malformed;
  }
  if (stack.icrc.length == 0) return Refusal::malformed;
  if (check_icrc(stack).status != CrcCheck::Status::good) return Refusal::icrc;
  read_transport(packet, stack);
  packet.payload = payload_of(packet, stack);
  return Refusal::none;
}

std::optional<std::vector<std::uint8_t>> make_frame(const OutgoingPacket& packet, const Port& port,
                                                    const Faults& faults) {
  (void)faults;
  if (packet.path.sgid_index >= port.gids.size()) return std::nullopt;
  const GidEntry& source = port.gids[packet.path.sgid_index];
  const auto mac = port.mac_of(packet.path.dgid);
  if (source.gid.is_zero() || !mac) return std::nullopt;
  const PacketFields& from = packet.fields;
  Frame frame;
  frame /= Value<Ethernet>().set<"dst">(load_be(mac->data(), 6)).set<"src">(load_be(port.mac.data(), 6));
  if (port.vlan) frame /= Value<Vlan>().set<"priority">(packet.path.sl & 7U).set<"id">(*port.vlan);
  frame /= network_header(packet, source);
  if (source.type == GidType::roce_v2) frame /= Value<Udp>().set<"src_port">(packet.source_port);
  frame /= Value<Bth>()
               .set<"opcode">(from.opcode)
               .set<"se">(from.solicited)
               .set<"migreq">(from.migrated)
               .set<"pkey">(from.pkey)
               .set<"dest_qp">(from.dest_qpn)
               .set<"ack_request">(from.ack_request)
               .set<"psn">(from.psn.value());
  for (const HeaderInfo* header : opcode(from.opcode).extension_headers()) frame /= extension(*header, from);
  frame.payload = packet.payload;
  return frame.encode();
}

}  // namespace rdmawire::device
