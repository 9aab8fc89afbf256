#pragma once
/// Decisions about the headers of frames that the device sends and receives: packet.cpp. See decisions.hpp.

#include <vector>

#include "conformance/device/common/overridable.hpp"
#include "conformance/device/roce/packet.hpp"
#include "dissectors/protocol/encode.hpp"
#include "dissectors/protocol/infiniband.hpp"

namespace rdmawire::device {

namespace conforming {

// Sent frames
/// Return the RoCE version of a packet, which is the type of its source GID. CA17-40, CA17-42.
GidType version_of(const GidEntry& source);
/// Return the VLAN tag. Its priority is the service level. A17.4.2.
HeaderValue vlan_tag(const OutgoingPacket& packet, const GidEntry& source);
/// Return the GRH, IPv4 or IPv6 header, according to the RoCE version and IP version of `source`: CA17-3 to CA17-19. An
/// IPv4 header has no options, and DF is set. Addresses, DSCP and hop limit are those of the address vector.
HeaderValue network_header(const OutgoingPacket& packet, const GidEntry& source);
/// Return the UDP header, with destination port 4791, checksum 0 and the packet's source port. CA17-20, A17.3.2.
HeaderValue udp_header(const OutgoingPacket& packet);
/// Return the BTH. Reserved bits are 0 (C9-6). MigReq is constant without an alternate path (17.2.8).
HeaderValue base_header(const PacketFields& from);
/// Return the extension headers of the opcode, in the specified order. 5.2, Table 38.
std::vector<HeaderValue> extension_headers(const PacketFields& from);
/// Encode headers and payload with lengths, pad and ICRC. CA17-6, CA17-15, CA17-21, CA17-22, 7.8.1.
std::vector<std::uint8_t> encode(const Frame& frame);

// Received frames
/// Decode a frame and check the requirements of every RoCE packet. CA17-24. `packet` refers to `frame`.
Refusal read_packet(const Core& core, Packet& packet, Bytes frame);
/// True if the device supports RoCEv2 over IPv6, as over IPv4. CA17-1.
bool supports_ipv6();
/// True if the IPv4 header has no options. CA17-3.
bool accepts_header_length(const Packet& packet);
/// True if the IPv4 header forbids fragmentation. CA17-7.
bool accepts_fragmentation(const Packet& packet);
/// True if an error in the BTH or an extension header makes the packet malformed. An unknown opcode does not.
bool is_malformed(const ParseError& error);
/// Return the number of bytes between payload and ICRC that are not delivered, which is the pad count. 9.2.
std::uint32_t pad_of(const View<Bth>& bth);
/// True if the ICRC is valid. CA17-24, 7.8.1.
bool has_valid_icrc(const Packet& packet, const HeaderStack& stack);

}  // namespace conforming

/// Decisions about sent frames.
struct EncodingDecisions {
  Overridable<GidType(const GidEntry&)> version_of = conforming::version_of;
  Overridable<HeaderValue(const OutgoingPacket&, const GidEntry&)> vlan_tag = conforming::vlan_tag;
  Overridable<HeaderValue(const OutgoingPacket&, const GidEntry&)> network_header = conforming::network_header;
  Overridable<HeaderValue(const OutgoingPacket&)> udp_header = conforming::udp_header;
  Overridable<HeaderValue(const PacketFields&)> base_header = conforming::base_header;
  Overridable<std::vector<HeaderValue>(const PacketFields&)> extension_headers = conforming::extension_headers;
  Overridable<std::vector<std::uint8_t>(const Frame&)> encode = conforming::encode;
};

/// Decisions about received frames.
struct DecodingDecisions {
  Overridable<Refusal(const Core&, Packet&, Bytes)> read = conforming::read_packet;
  Overridable<bool()> supports_ipv6 = conforming::supports_ipv6;
  Overridable<bool(const Packet&)> accepts_header_length = conforming::accepts_header_length;
  Overridable<bool(const Packet&)> accepts_fragmentation = conforming::accepts_fragmentation;
  Overridable<bool(const ParseError&)> is_malformed = conforming::is_malformed;
  Overridable<std::uint32_t(const View<Bth>&)> pad_of = conforming::pad_of;
  Overridable<bool(const Packet&, const HeaderStack&)> has_valid_icrc = conforming::has_valid_icrc;
};

}  // namespace rdmawire::device
