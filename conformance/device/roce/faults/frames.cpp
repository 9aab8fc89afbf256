/// Faults in the headers of sent and received frames.

#include <algorithm>

#include "conformance/device/roce/core.hpp"
#include "conformance/device/roce/faults/icrc.hpp"
#include "conformance/device/roce/faults/overrides.hpp"
#include "dissectors/protocol/crc.hpp"
#include "dissectors/protocol/ethernet.hpp"
#include "dissectors/protocol/ip.hpp"
#include "dissectors/protocol/transport.hpp"

namespace rdmawire::device {

namespace {

constexpr std::uint32_t icrc_bytes = 4;

/// Set a field of `header` if the header has the type `Header`.
template <class Header>
void set_field(HeaderValue& header, std::string_view field, std::uint64_t value) {
  if (&header.header() == &info<Header>) header.set(*info<Header>.find(field), value);
}

// Sent frames

using NetworkHeader = decltype(EncodingDecisions::network_header)::Next;
using UdpHeader = decltype(EncodingDecisions::udp_header)::Next;
using Encode = decltype(EncodingDecisions::encode)::Next;

/// Return the network header of the packet after `change`.
template <void (*change)(OutgoingPacket&)>
HeaderValue network_header_of(const NetworkHeader& next, const OutgoingPacket& packet, const GidEntry& source) {
  OutgoingPacket changed = packet;
  change(changed);
  return next(changed, source);
}

void no_dscp(OutgoingPacket& packet) { packet.path.traffic_class = 0; }
void capable(OutgoingPacket& packet) { packet.ecn = packet.ecn == 0 ? 2 : packet.ecn; }
void marked(OutgoingPacket& packet) { packet.ecn = 3; }
void highest_hop_limit(OutgoingPacket& packet) { packet.path.hop_limit = 255; }
void one_hop_less(OutgoingPacket& packet) { --packet.path.hop_limit; }

/// Set a field of the UDP header.
template <FixedString field, std::uint16_t value>
HeaderValue udp_header_with(const UdpHeader& next, const OutgoingPacket& packet) {
  HeaderValue udp = next(packet);
  set_field<Udp>(udp, field.view(), value);
  return udp;
}

std::size_t network_offset(Frame& frame) {
  return frame.find(info<Vlan>) ? Ethernet::size + Vlan::size : Ethernet::size;
}

/// Set a length field that does not count the ICRC. `not_counted` returns the size of the headers that it does not
/// count.
template <class Header, FixedString field, std::size_t (*not_counted)(Frame&)>
std::vector<std::uint8_t> encode_short(const Encode& next, const Frame& frame) {
  Frame wrong = frame;
  HeaderValue* header = wrong.find(info<Header>);
  if (header) {
    const std::size_t counted = next(frame).size() - network_offset(wrong) - not_counted(wrong);
    header->set(*info<Header>.find(field.view()), counted - icrc_bytes);
  }
  return next(wrong);
}

std::size_t no_bytes(Frame& /*frame*/) { return 0; }
std::size_t ipv6_bytes(Frame& /*frame*/) { return Ipv6::size; }
std::size_t ip_bytes(Frame& frame) { return frame.find(info<Ipv4>) ? Ipv4::size : Ipv6::size; }

bool is_connected(const PacketFields& packet) { return opcode(packet.opcode).transport != Transport::ud; }

/// The bytes of a datagram that the ICRC covers, which start with the IP header.
struct Covered {
  Bytes datagram;
  bool ipv4 = false;
  const Opcode& op;
};

/// Encode a frame with another ICRC. `masks` returns how to compute it. nullopt: correctly.
template <std::optional<IcrcMasks> (*masks)(const Covered&)>
std::vector<std::uint8_t> encode_icrc(const Encode& next, const Frame& frame) {
  Frame wrong = frame;
  std::vector<std::uint8_t> bytes = next(frame);
  const std::size_t network = network_offset(wrong);
  const bool ipv4 = bytes[network] == 0x45;
  if (!ipv4 && bytes[network] >> 4 != 6) return bytes;
  const Covered covered{Bytes(bytes).subspan(network, bytes.size() - network - icrc_bytes), ipv4,
                        opcode(static_cast<std::uint8_t>(wrong.find(info<Bth>)->get(*info<Bth>.find("opcode"))))};
  const auto computed = masks(covered);
  if (!computed) return bytes;
  wrong.icrc = icrc_with(covered.datagram, ipv4, *computed);
  return next(wrong);
}

std::optional<IcrcMasks> ttl_unmasked(const Covered& covered) {
  return covered.ipv4 ? std::optional(IcrcMasks{.hops = false}) : std::nullopt;
}

std::optional<IcrcMasks> hop_limit_unmasked(const Covered& covered) {
  return covered.ipv4 ? std::nullopt : std::optional(IcrcMasks{.hops = false});
}

std::optional<IcrcMasks> flush_headers_twice(const Covered& covered) {
  if (covered.op.operation != Operation::flush) return std::nullopt;
  return IcrcMasks{.headers_again = covered.op.header_bytes};
}

std::optional<IcrcMasks> pad_left_out(const Covered& covered) {
  const std::size_t pad_at = (covered.ipv4 ? Ipv4::size : Ipv6::size) + Udp::size + 1;
  const std::uint32_t pad = covered.datagram.size() > pad_at ? covered.datagram[pad_at] >> 4U & 3U : 0U;
  return pad != 0 ? std::optional(IcrcMasks{.left_out = pad}) : std::nullopt;
}

// Received frames

using Read = decltype(DecodingDecisions::read)::Next;
using HasValidIcrc = decltype(DecodingDecisions::has_valid_icrc)::Next;

/// Change a frame before it is decoded.
template <void (*change)(MutableBytes frame)>
Refusal read_changed(const Read& next, const Core& core, Packet& packet, Bytes frame) {
  if (frame.size() <= Ethernet::size + Ipv4::size + Udp::size) return next(core, packet, frame);
  packet.faults.received = frame;
  packet.faults.changed.assign(frame.begin(), frame.end());
  change(packet.faults.changed);
  return next(core, packet, packet.faults.changed);
}

unsigned version_of(Bytes frame) { return frame[Ethernet::size] >> 4; }

/// Replace undefined UD opcodes by SEND Only.
void unfragment(MutableBytes frame) {
  std::uint8_t& opcode = frame[Ethernet::size + Ipv4::size + Udp::size];
  const bool datagram = opcode >= 0x60 && opcode < 0x80;
  if (version_of(frame) == 4 && datagram && opcode != 0x64 && opcode != 0x65) opcode = 0x64;
}

void adopt_version(MutableBytes frame) {
  const unsigned version = version_of(frame);
  if (version == 4 || version == 6)
    store_be(frame.data() + Ethernet::size - 2, 2, version == 4 ? ethertype::ipv4 : ethertype::ipv6);
}

void correct_checksum(std::uint8_t* ip) {
  store_be(ip + 10, 2, 0);
  store_be(ip + 10, 2, internet_checksum(Bytes(ip, Ipv4::size)));
}

void correct_lengths(MutableBytes frame) {
  if (version_of(frame) != 4) return;
  std::uint8_t* ip = frame.data() + Ethernet::size;
  const std::size_t datagram = frame.size() - Ethernet::size;
  store_be(ip + 2, 2, datagram);
  store_be(ip + Ipv4::size + 4, 2, datagram - Ipv4::size);
  correct_checksum(ip);
}

/// Shorten the IP datagram to the end of the UDP datagram.
void cut_trailing_bytes(MutableBytes frame) {
  if (version_of(frame) != 4) return;
  std::uint8_t* ip = frame.data() + Ethernet::size;
  const std::uint64_t end = Ipv4::size + load_be<2>(ip + Ipv4::size + 4);
  if (load_be<2>(ip + 2) <= end) return;
  store_be(ip + 2, 2, end);
  correct_checksum(ip);
}

/// Clear MF and the fragment offset, and set DF.
void defragment(MutableBytes frame) {
  constexpr std::uint64_t only_df = 0x4000;
  if (version_of(frame) != 4) return;
  std::uint8_t* ip = frame.data() + Ethernet::size;
  constexpr std::uint64_t fragment = 0x3fff;
  if ((load_be<2>(ip + 6) & fragment) == 0) return;
  store_be(ip + 6, 2, only_df);
  correct_checksum(ip);
}

void adopt_ethertype(MutableBytes frame) {
  if (load_be<2>(frame.data() + Ethernet::size - 2) != ethertype::ipv4 || version_of(frame) == 4) return;
  std::uint8_t* ip = frame.data() + Ethernet::size;
  ip[0] = static_cast<std::uint8_t>(0x40 | (ip[0] & 0xf));
  correct_checksum(ip);
}

bool matches_icrc(const Packet& packet, const HeaderStack& stack, Bytes frame, const IcrcMasks& masks) {
  const std::size_t network = stack.layers()[stack.network].offset, end = stack.icrc.offset;
  return icrc_with(frame.subspan(network, end - network), packet.is_ipv4, masks) == load_icrc(stack.bytes.data() + end);
}

/// Check the ICRC of the frame as it was received, if a fault changed it.
bool check_received(const HasValidIcrc& next, const Packet& packet, const HeaderStack& stack) {
  if (packet.type != GidType::roce_v2 || packet.faults.received.empty()) return next(packet, stack);
  return matches_icrc(packet, stack, packet.faults.received, {});
}

constexpr FaultOverride frame_rows[] = {
    // Sent network headers
    {Fault::always_roce_v2,
     [](Decisions& d) {
       d.encoding.version_of.override_with(
           [](const auto& /*next*/, const GidEntry& /*source*/) { return GidType::roce_v2; });
     }},
    {Fault::vlan_priority_zero,
     [](Decisions& d) {
       d.encoding.vlan_tag.override_with([](const auto& next, const OutgoingPacket& packet, const GidEntry& source) {
         HeaderValue tag = next(packet, source);
         set_field<Vlan>(tag, "priority", 0);
         return tag;
       });
     }},
    {Fault::vlan_priority_inverted,
     [](Decisions& d) {
       d.encoding.vlan_tag.override_with([](const auto& next, const OutgoingPacket& packet, const GidEntry& source) {
         HeaderValue tag = next(packet, source);
         set_field<Vlan>(tag, "priority", ~packet.path.sl & 7U);
         return tag;
       });
     }},
    {Fault::always_roce_v1,
     [](Decisions& d) {
       d.encoding.version_of.override_with(
           [](const auto& /*next*/, const GidEntry& /*source*/) { return GidType::roce_v1; });
     }},
    {Fault::decrements_hop_limit,
     [](Decisions& d) { d.encoding.network_header.override_with(network_header_of<one_hop_less>); }},
    {Fault::sends_ip_options,
     [](Decisions& d) {
       d.encoding.network_header.override_with(
           [](const auto& next, const OutgoingPacket& packet, const GidEntry& source) {
             constexpr std::uint8_t no_operations[] = {1, 1, 1, 1};
             HeaderValue header = next(packet, source);
             if (&header.header() == &info<Ipv4>) header.set_tail(no_operations);
             return header;
           });
     }},
    {Fault::allows_fragments,
     [](Decisions& d) {
       d.encoding.network_header.override_with(
           [](const auto& next, const OutgoingPacket& packet, const GidEntry& source) {
             HeaderValue header = next(packet, source);
             set_field<Ipv4>(header, "df", 0);
             return header;
           });
     }},
    {Fault::wrong_ip_protocol,
     [](Decisions& d) {
       d.encoding.network_header.override_with(
           [](const auto& next, const OutgoingPacket& packet, const GidEntry& source) {
             constexpr std::uint8_t infiniband = 0x1b;
             HeaderValue header = next(packet, source);
             set_field<Ipv4>(header, "protocol", infiniband);
             set_field<Ipv6>(header, "next_header", infiniband);
             return header;
           });
     }},
    {Fault::ignores_dscp, [](Decisions& d) { d.encoding.network_header.override_with(network_header_of<no_dscp>); }},
    {Fault::sends_ecn_unasked,
     [](Decisions& d) { d.encoding.network_header.override_with(network_header_of<capable>); }},
    {Fault::marks_own_packets,
     [](Decisions& d) { d.encoding.network_header.override_with(network_header_of<marked>); }},
    {Fault::fixed_hop_limit,
     [](Decisions& d) { d.encoding.network_header.override_with(network_header_of<highest_hop_limit>); }},
    {Fault::wrong_source_address,
     [](Decisions& d) {
       d.encoding.network_header.override_with(
           [](const auto& next, const OutgoingPacket& packet, const GidEntry& source) {
             GidEntry other = source;
             other.gid.bytes[15] ^= 1;
             return next(packet, other);
           });
     }},
    // Sent UDP headers
    {Fault::low_source_port,
     [](Decisions& d) { d.encoding.udp_header.override_with(udp_header_with<"src_port", 1024>); }},
    {Fault::changing_source_port,
     [](Decisions& d) {
       d.encoding.udp_header.override_with([](const auto& next, const OutgoingPacket& packet) {
         HeaderValue udp = next(packet);
         set_field<Udp>(udp, "src_port", 0xc000 | (packet.source_port + packet.fields.psn.value()));
         return udp;
       });
     }},
    {Fault::wrong_udp_port,
     [](Decisions& d) { d.encoding.udp_header.override_with(udp_header_with<"dst_port", 4790>); }},
    {Fault::sends_udp_checksum,
     [](Decisions& d) { d.encoding.udp_header.override_with(udp_header_with<"checksum", 0x1234>); }},
    // Sent transport headers
    {Fault::migration_bit_flips,
     [](Decisions& d) {
       d.encoding.base_header.override_with([](const auto& next, const PacketFields& from) {
         HeaderValue bth = next(from);
         set_field<Bth>(bth, "migreq", from.psn.value() & 1);
         return bth;
       });
     }},
    {Fault::sends_reserved_bits,
     [](Decisions& d) {
       d.encoding.base_header.override_with([](const auto& next, const PacketFields& from) {
         HeaderValue bth = next(from);
         set_field<Bth>(bth, "reserved2", 1);
         return bth;
       });
     }},
    {Fault::sends_header_version_1,
     [](Decisions& d) {
       d.encoding.base_header.override_with([](const auto& next, const PacketFields& from) {
         HeaderValue bth = next(from);
         set_field<Bth>(bth, "tver", 1);
         return bth;
       });
     }},
    {Fault::addresses_next_queue_pair,
     [](Decisions& d) {
       d.encoding.base_header.override_with([](const auto& next, const PacketFields& from) {
         HeaderValue bth = next(from);
         if (is_connected(from)) set_field<Bth>(bth, "dest_qp", from.dest_qpn + 1);
         return bth;
       });
     }},
    {Fault::sends_other_pkey,
     [](Decisions& d) {
       d.encoding.base_header.override_with([](const auto& next, const PacketFields& from) {
         HeaderValue bth = next(from);
         if (is_connected(from)) set_field<Bth>(bth, "pkey", from.pkey ^ 1);
         return bth;
       });
     }},
    {Fault::sends_reserved_extension_bits,
     [](Decisions& d) {
       d.encoding.extension_headers.override_with([](const auto& next, const PacketFields& from) {
         std::vector<HeaderValue> headers = next(from);
         for (HeaderValue& header : headers) {
           set_field<Aeth>(header, "syndrome.reserved", 1);
           set_field<Deth>(header, "reserved", 1);
         }
         return headers;
       });
     }},
    {Fault::wrong_ip_checksum,
     [](Decisions& d) {
       d.encoding.encode.override_with([](const auto& next, const Frame& frame) {
         std::vector<std::uint8_t> bytes = next(frame);
         Frame sent = frame;
         constexpr std::size_t checksum_at = 10;
         if (sent.find(info<Ipv4>)) bytes[network_offset(sent) + checksum_at] ^= 1;
         return bytes;
       });
     }},
    {Fault::extension_headers_reversed,
     [](Decisions& d) {
       d.encoding.extension_headers.override_with([](const auto& next, const PacketFields& from) {
         std::vector<HeaderValue> headers = next(from);
         std::ranges::reverse(headers);
         return headers;
       });
     }},
    // Sent lengths, pad and ICRC
    {Fault::short_total_length,
     [](Decisions& d) { d.encoding.encode.override_with(encode_short<Ipv4, "total_length", no_bytes>); }},
    {Fault::short_payload_length,
     [](Decisions& d) { d.encoding.encode.override_with(encode_short<Ipv6, "payload_length", ipv6_bytes>); }},
    {Fault::short_udp_length,
     [](Decisions& d) { d.encoding.encode.override_with(encode_short<Udp, "length", ip_bytes>); }},
    {Fault::wrong_pad_count,
     [](Decisions& d) {
       d.encoding.encode.override_with([](const auto& next, const Frame& frame) {
         Frame unpadded = frame;
         unpadded.pad.emplace();
         set_field<Bth>(*unpadded.find(info<Bth>), "pad", 0);
         return next(unpadded);
       });
     }},
    {Fault::icrc_covers_ttl, [](Decisions& d) { d.encoding.encode.override_with(encode_icrc<ttl_unmasked>); }},
    {Fault::icrc_covers_hop_limit,
     [](Decisions& d) { d.encoding.encode.override_with(encode_icrc<hop_limit_unmasked>); }},
    {Fault::icrc_leaves_pad_out, [](Decisions& d) { d.encoding.encode.override_with(encode_icrc<pad_left_out>); }},
    {Fault::flush_icrc_twice,
     [](Decisions& d) {
       d.encoding.encode.override_with(encode_icrc<flush_headers_twice>);
       d.decoding.has_valid_icrc.override_with([](const auto& next, const Packet& packet, const HeaderStack& stack) {
         if (packet.type != GidType::roce_v2 || !packet.op->known || packet.op->operation != Operation::flush)
           return next(packet, stack);
         return matches_icrc(packet, stack, stack.bytes, {.headers_again = packet.op->header_bytes});
       });
     }},
    // Received frames
    {Fault::only_ipv4,
     [](Decisions& d) { d.decoding.supports_ipv6.override_with([](const auto& /*next*/) { return false; }); }},
    {Fault::accepts_ip_options,
     [](Decisions& d) {
       d.decoding.accepts_header_length.override_with(
           [](const auto& /*next*/, const Packet& /*packet*/) { return true; });
     }},
    {Fault::accepts_fragmentable,
     [](Decisions& d) {
       d.decoding.accepts_fragmentation.override_with(
           [](const auto& /*next*/, const Packet& /*packet*/) { return true; });
     }},
    {Fault::accepts_version_mismatch, [](Decisions& d) { d.decoding.read.override_with(read_changed<adopt_version>); }},
    {Fault::accepts_wrong_lengths,
     [](Decisions& d) {
       d.decoding.read.override_with(read_changed<correct_lengths>);
       d.decoding.has_valid_icrc.override_with(check_received);
     }},
    {Fault::accepts_fragments,
     [](Decisions& d) {
       d.decoding.read.override_with(read_changed<defragment>);
       d.decoding.has_valid_icrc.override_with(check_received);
     }},
    {Fault::ignores_ip_version,
     [](Decisions& d) {
       d.decoding.read.override_with(read_changed<adopt_ethertype>);
       d.decoding.has_valid_icrc.override_with(check_received);
     }},
    {Fault::ignores_trailing_bytes,
     [](Decisions& d) {
       d.decoding.read.override_with(read_changed<cut_trailing_bytes>);
       d.decoding.has_valid_icrc.override_with(check_received);
     }},
    {Fault::takes_ud_fragments,
     [](Decisions& d) {
       d.decoding.read.override_with(read_changed<unfragment>);
       d.decoding.has_valid_icrc.override_with(check_received);
     }},
    {Fault::accepts_runts,
     [](Decisions& d) {
       d.decoding.is_malformed.override_with([](const auto& /*next*/, const ParseError& /*error*/) { return false; });
     }},
    {Fault::delivers_pad,
     [](Decisions& d) {
       d.decoding.pad_of.override_with([](const auto& /*next*/, const View<Bth>& /*bth*/) { return 0U; });
     }},
    {Fault::accepts_bad_icrc,
     [](Decisions& d) {
       d.decoding.has_valid_icrc.override_with(
           [](const auto& /*next*/, const Packet& /*packet*/, const HeaderStack& /*stack*/) { return true; });
     }},
    {Fault::icrc_reserved_unmasked,
     [](Decisions& d) {
       d.decoding.has_valid_icrc.override_with([](const auto& next, const Packet& packet, const HeaderStack& stack) {
         if (packet.type != GidType::roce_v2) return next(packet, stack);
         return matches_icrc(packet, stack, stack.bytes, {.reserved = false});
       });
     }},
};

}  // namespace

std::span<const FaultOverride> frame_overrides() { return frame_rows; }

}  // namespace rdmawire::device
