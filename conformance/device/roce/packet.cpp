#include "conformance/device/roce/packet.hpp"

#include <algorithm>

#include "conformance/device/roce/faults.hpp"
#include "conformance/device/roce/icrc.hpp"
#include "conformance/device/roce/port.hpp"
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

/// Check and decode the layers up to the BTH. Tunnels and IPv6 extension headers are rejected.
Refusal read_network(Packet& packet, const HeaderStack& stack, const Port& port, const Faults& faults) {
  const auto layers = stack.layers();
  if (layers.empty() || layers[0].header != &info<Ethernet>) return Refusal::not_roce;
  const View<Ethernet> ethernet(stack.bytes.data());
  const Mac to = mac_of(stack.bytes.data());
  if (to != port.mac && (to[0] & 1) == 0) return Refusal::not_ours;
  packet.source_mac = mac_of(stack.bytes.data() + 6);
  std::size_t next = 1;
  std::uint16_t type = ethernet.get<"type">();
  if (layers.size() > next && layers[next].header == &info<Vlan>) {
    const View<Vlan> tag(stack.bytes.data() + layers[next].offset);
    packet.vlan = tag.get<"id">();
    packet.sl = tag.get<"priority">();
    type = tag.get<"type">();
    ++next;
  }
  if (type != ethertype::ipv4 && type != ethertype::ipv6 && type != ethertype::roce_v1) return Refusal::not_roce;
  // CA17-27: IP version and EtherType must agree. The decoder stops if they differ.
  if (layers.size() <= next) return Refusal::malformed;
  const Layer& network = layers[next];
  const std::uint8_t* at = stack.bytes.data() + network.offset;
  packet.network = stack.bytes_of(network);
  const std::uint32_t available = static_cast<std::uint32_t>(stack.bytes.size()) - network.offset;
  if (network.header == &info<Ipv4>) {
    const View<Ipv4> ip(at);
    if (ip.get<"protocol">() != ip_protocol::udp) return Refusal::not_roce;
    packet.is_ipv4 = true;
    packet.sgid = Gid::ipv4(ip.get<"src">());
    packet.dgid = Gid::ipv4(ip.get<"dst">());
    packet.traffic_class = ip.get<"tos">();
    if (ip.get<"total_length">() > available || ip.get<"total_length">() < network.length + Udp::size)
      return Refusal::malformed;
    if (internet_checksum(packet.network) != 0) return Refusal::malformed;
    if (network.length != Ipv4::size && !faults[Fault::accepts_ip_options]) return Refusal::malformed;
    if (!ip.get<"df">() && !faults[Fault::accepts_fragmentable]) return Refusal::malformed;
    if (ip.get<"mf">() || ip.get<"fragment_offset">() != 0) return Refusal::malformed;
  } else if (network.header == &info<Ipv6>) {
    if (faults[Fault::only_ipv4]) return Refusal::not_ours;
    const View<Ipv6> ip(at);
    if (ip.get<"next_header">() != ip_protocol::udp) return Refusal::not_roce;
    packet.sgid = gid_of(ip.get<"src">());
    packet.dgid = gid_of(ip.get<"dst">());
    packet.traffic_class = ip.get<"traffic_class">();
    if (Ipv6::size + std::uint32_t{ip.get<"payload_length">()} > available) return Refusal::malformed;
  } else if (network.header == &info<Grh>) {
    const View<Grh> grh(at);
    packet.type = GidType::roce_v1;
    packet.sgid = gid_of(grh.get<"sgid">());
    packet.dgid = gid_of(grh.get<"dgid">());
    packet.traffic_class = grh.get<"traffic_class">();
    if (grh.get<"version">() != 6 || grh.get<"next_header">() != Grh::next_is_bth ||
        Grh::size + std::uint32_t{grh.get<"payload_length">()} > available)
      return Refusal::malformed;
  } else {
    return Refusal::not_roce;
  }
  ++next;
  if (packet.type == GidType::roce_v2) {
    if (layers.size() <= next || layers[next].header != &info<Udp>) return Refusal::malformed;
    const View<Udp> udp(stack.bytes.data() + layers[next].offset);
    if (udp.get<"dst_port">() != DecodeOptions::roce_v2_udp_port) return Refusal::not_roce;
    const std::uint32_t datagram = packet.is_ipv4 ? View<Ipv4>(at).get<"total_length">() - network.length
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

/// Return the bytes between extension headers and ICRC, including the layers of a management datagram.
Bytes payload_of(const Packet& packet, const HeaderStack& stack, const Faults& faults) {
  const Layer* bth = stack.find(info<Bth>);
  const std::uint32_t from = bth->offset + bth->length + packet.op->header_bytes;
  const std::uint32_t pad = faults[Fault::delivers_pad] ? 0 : stack.bytes[bth->offset + 1] >> 4 & 3;
  const std::uint32_t to = stack.icrc.offset - pad;
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

HeaderValue network_header(const OutgoingPacket& packet, const GidEntry& source, const Faults& faults) {
  const AddressVector& path = packet.path;
  const unsigned dscp = faults[Fault::ignores_dscp] ? 0 : path.traffic_class & 0xfcU;
  const unsigned ecn = faults[Fault::marks_own_packets]                      ? 3U
                       : faults[Fault::sends_ecn_unasked] && packet.ecn == 0 ? 2U
                                                                             : packet.ecn;
  const unsigned hops = faults[Fault::fixed_hop_limit] ? 255U : path.hop_limit;
  constexpr std::uint8_t infiniband = 0x1b;
  std::array<std::uint8_t, 16> from = source.gid.bytes;
  if (faults[Fault::wrong_source_address]) from[15] ^= 1;
  if (source.type == GidType::roce_v1 && !faults[Fault::always_roce_v2])
    return Value<Grh>()
        .set<"traffic_class">(dscp)
        .set<"flow_label">(path.flow_label)
        .set<"hop_limit">(hops)
        .set<"sgid">(Bytes(from))
        .set<"dgid">(Bytes(path.dgid.bytes));
  if (source.gid.is_ipv4()) {
    auto ip = Value<Ipv4>()
                  .set<"tos">(dscp | ecn)
                  .set<"df">(!faults[Fault::allows_fragments])
                  .set<"ttl">(hops)
                  .set<"src">(Gid{from}.ipv4_address())
                  .set<"dst">(path.dgid.ipv4_address());
    if (faults[Fault::wrong_ip_protocol]) ip.set<"protocol">(infiniband);
    HeaderValue header = ip;
    constexpr std::uint8_t no_operations[] = {1, 1, 1, 1};
    if (faults[Fault::sends_ip_options]) header.set_tail(no_operations);
    return header;
  }
  auto ip = Value<Ipv6>()
                .set<"traffic_class">(dscp | ecn)
                .set<"flow_label">(path.flow_label)
                .set<"hop_limit">(hops)
                .set<"src">(Bytes(from))
                .set<"dst">(Bytes(path.dgid.bytes));
  if (faults[Fault::wrong_ip_protocol]) ip.set<"next_header">(infiniband);
  return ip;
}

HeaderValue udp_header(const OutgoingPacket& packet, const Faults& faults) {
  Value<Udp> udp;
  udp.set<"src_port">(faults[Fault::low_source_port]        ? 1024
                      : faults[Fault::changing_source_port] ? 0xc000 | (packet.source_port + packet.fields.psn.value())
                                                            : packet.source_port);
  if (faults[Fault::wrong_udp_port]) udp.set<"dst_port">(4790);
  if (faults[Fault::sends_udp_checksum]) udp.set<"checksum">(0x1234);
  return udp;
}

HeaderValue base_header(const PacketFields& from, const Faults& faults) {
  Value<Bth> bth;
  bth.set<"opcode">(from.opcode)
      .set<"se">(from.solicited)
      .set<"migreq">(faults[Fault::migration_bit_flips] ? from.psn.value() & 1 : from.migrated)
      .set<"pkey">(from.pkey)
      .set<"dest_qp">(from.dest_qpn)
      .set<"ack_request">(from.ack_request)
      .set<"psn">(from.psn.value());
  if (faults[Fault::sends_reserved_bits]) bth.set<"reserved2">(1);
  if (faults[Fault::wrong_pad_count]) bth.set<"pad">(0);
  return bth;
}

/// Set the wrong lengths of a fault. `size`: bytes of the frame.
void miscount(Frame& frame, std::size_t size, std::size_t network_at, const Faults& faults) {
  constexpr std::uint32_t icrc = 4;
  const auto datagram = static_cast<std::uint32_t>(size - network_at);
  if (HeaderValue* ip = frame.find(info<Ipv4>); ip && faults[Fault::short_total_length])
    ip->set(*info<Ipv4>.find("total_length"), datagram - icrc);
  if (HeaderValue* ip = frame.find(info<Ipv6>); ip && faults[Fault::short_payload_length])
    ip->set(*info<Ipv6>.find("payload_length"), datagram - Ipv6::size - icrc);
  if (HeaderValue* udp = frame.find(info<Udp>); udp && faults[Fault::short_udp_length])
    udp->set(*info<Udp>.find("length"), datagram - (frame.find(info<Ipv4>) ? Ipv4::size : Ipv6::size) - icrc);
}

/// Return the wrong ICRC of a fault, or nothing for the correct ICRC.
std::optional<std::uint32_t> wrong_icrc(Bytes datagram, bool ipv4, const Opcode& op, const Faults& faults) {
  const bool hops = faults[ipv4 ? Fault::icrc_covers_ttl : Fault::icrc_covers_hop_limit];
  const bool flush = op.operation == Operation::flush && faults[Fault::flush_icrc_twice];
  const std::size_t pad_at = (ipv4 ? Ipv4::size : Ipv6::size) + Udp::size + 1;
  const std::uint32_t pad =
      faults[Fault::icrc_leaves_pad_out] && datagram.size() > pad_at ? datagram[pad_at] >> 4U & 3U : 0U;
  if (!hops && !flush && pad == 0) return std::nullopt;
  return icrc_with(datagram, ipv4, {.hops = !hops, .headers_again = flush ? op.header_bytes : 0U, .left_out = pad});
}

}  // namespace

namespace {

/// Return the frame as modified by a fault before it is checked.
Bytes mistaken(Packet& packet, Bytes frame, const Faults& faults) {
  constexpr std::size_t network = 14;
  if (frame.size() < network + 28) return frame;
  packet.storage.assign(frame.begin(), frame.end());
  std::uint8_t* at = packet.storage.data();
  const unsigned version = at[network] >> 4;
  std::uint8_t& opcode_of_ipv4 = at[network + 28];
  if (faults[Fault::takes_ud_fragments] && version == 4 && opcode_of_ipv4 >= 0x60 && opcode_of_ipv4 < 0x64)
    opcode_of_ipv4 = 0x64;
  if (faults[Fault::accepts_version_mismatch] && (version == 4 || version == 6))
    store_be(at + 12, 2, version == 4 ? ethertype::ipv4 : ethertype::ipv6);
  if (faults[Fault::accepts_wrong_lengths] && version == 4) {
    store_be(at + network + 2, 2, frame.size() - network);
    store_be(at + network + 24, 2, frame.size() - network - 20);
    store_be(at + network + 10, 2, 0);
    store_be(at + network + 10, 2, internet_checksum(Bytes(at + network, 20)));
  }
  return packet.storage;
}

bool good_icrc(const Packet& packet, const HeaderStack& stack, Bytes frame, const Faults& faults) {
  if (faults[Fault::accepts_bad_icrc]) return true;
  const std::size_t network = stack.layers()[stack.network].offset, end = stack.icrc.offset;
  const std::uint32_t found = load_icrc(stack.bytes.data() + end);
  const bool v2 = packet.type == GidType::roce_v2;
  // The ICRC covers the original bytes.
  if (v2 && (faults[Fault::accepts_wrong_lengths] || faults[Fault::takes_ud_fragments]))
    return icrc_with(frame.subspan(network, end - network), packet.is_ipv4, {}) == found;
  if (v2 && faults[Fault::icrc_reserved_unmasked])
    return icrc_with(frame.subspan(network, end - network), packet.is_ipv4, {.reserved = false}) == found;
  if (v2 && faults[Fault::flush_icrc_twice] && packet.op->operation == Operation::flush && packet.op->known)
    return icrc_with(frame.subspan(network, end - network), packet.is_ipv4,
                     {.headers_again = packet.op->header_bytes}) == found;
  return check_icrc(stack).status == CrcCheck::Status::good;
}

/// True if the packet is too short for its headers or its pad. Errors in management datagrams and unknown opcodes are
/// ignored here.
bool too_short(const Packet& packet, const HeaderStack& stack, const Faults& faults) {
  for (const ParseError& finding : stack.findings()) {
    const auto extensions = packet.op->extension_headers();
    const bool transport =
        finding.layer == &info<Bth> || std::ranges::find(extensions, finding.layer) != extensions.end();
    const bool below = finding.layer == &info<Udp> || finding.layer == &info<Ipv4> || finding.layer == &info<Ipv6> ||
                       finding.layer == &info<Grh>;
    if (below) return true;
    if (transport && finding.kind != ParseError::Kind::unknown && !faults[Fault::accepts_runts]) return true;
  }
  return stack.icrc.length == 0;
}

}  // namespace

Refusal read_packet(Packet& packet, Bytes frame, const Port& port, const Faults& faults) {
  const bool mistakes = faults[Fault::accepts_version_mismatch] || faults[Fault::accepts_wrong_lengths] ||
                        faults[Fault::takes_ud_fragments];
  const Bytes seen = mistakes ? mistaken(packet, frame, faults) : frame;
  HeaderStack stack;
  decode(stack, seen, LinkType::ethernet, static_cast<std::uint32_t>(seen.size()));
  if (const Refusal refusal = read_network(packet, stack, port, faults); refusal != Refusal::none) return refusal;
  packet.op = &opcode(stack.get<Bth>()->get<"opcode">());
  if (too_short(packet, stack, faults)) return Refusal::malformed;
  read_transport(packet, stack);
  packet.payload = payload_of(packet, stack, faults);
  return good_icrc(packet, stack, frame, faults) ? Refusal::none : Refusal::icrc;
}

std::optional<std::vector<std::uint8_t>> make_frame(const OutgoingPacket& packet, const Port& port,
                                                    const Faults& faults) {
  if (packet.path.sgid_index >= port.gids.size()) return std::nullopt;
  const GidEntry& source = port.gids[packet.path.sgid_index];
  const auto mac = port.mac_of(packet.path.dgid);
  if (source.gid.is_zero() || !mac) return std::nullopt;
  const PacketFields& from = packet.fields;
  const Opcode& op = opcode(from.opcode);
  Frame frame;
  frame /= Value<Ethernet>().set<"dst">(load_be(mac->data(), 6)).set<"src">(load_be(port.mac.data(), 6));
  const unsigned priority = faults[Fault::vlan_priority_zero] ? 0 : packet.path.sl & 7U;
  if (source.vlan != 0) frame /= Value<Vlan>().set<"priority">(priority).set<"id">(source.vlan);
  frame /= network_header(packet, source, faults);
  if (source.type == GidType::roce_v2 || faults[Fault::always_roce_v2]) frame /= udp_header(packet, faults);
  frame /= base_header(from, faults);
  std::vector<const HeaderInfo*> extensions(op.extension_headers().begin(), op.extension_headers().end());
  if (faults[Fault::extension_headers_reversed]) std::ranges::reverse(extensions);
  for (const HeaderInfo* header : extensions) {
    HeaderValue value = extension(*header, from);
    if (header == &info<Cnp>) value.mutable_bytes()[0] = from.cnp_reserved;
    frame /= std::move(value);
  }
  frame.payload = packet.payload;
  if (faults[Fault::wrong_pad_count]) frame.pad.emplace();
  std::vector<std::uint8_t> bytes = frame.encode();
  if (!faults.any()) return bytes;
  const std::size_t network_at = source.vlan != 0 ? 18 : 14;
  miscount(frame, bytes.size(), network_at, faults);
  bytes = frame.encode();
  constexpr std::size_t icrc_bytes = 4;
  if (bytes[network_at] != 0x45 && bytes[network_at] >> 4 != 6) return bytes;
  frame.icrc = wrong_icrc(Bytes(bytes).subspan(network_at, bytes.size() - network_at - icrc_bytes),
                          bytes[network_at] == 0x45, op, faults);
  return frame.icrc ? frame.encode() : bytes;
}

}  // namespace rdmawire::device
