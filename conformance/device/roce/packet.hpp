#pragma once
/// Received and outgoing packets of the device, and their conversion from and to frames.

#include <cstdint>
#include <optional>
#include <vector>

#include "conformance/device/roce/addresses.hpp"
#include "dissectors/protocol/bits.hpp"
#include "dissectors/protocol/modular.hpp"
#include "dissectors/protocol/opcode.hpp"

namespace rdmawire::device {

struct Core;
struct EncodingDecisions;
struct Port;

/// Fields of the BTH and the extension headers. Only those of the opcode's headers are valid.
struct PacketFields {
  std::uint8_t opcode = 0;
  bool solicited = false, migrated = true, ack_request = false, fecn = false, becn = false;
  std::uint16_t pkey = 0xffff;
  std::uint32_t dest_qpn = 0;
  Psn psn{};
  std::uint64_t va = 0;
  std::uint32_t rkey = 0, length = 0;
  std::uint64_t swap_add = 0, compare = 0;
  std::uint8_t placement = 0, selectivity = 0;
  std::uint32_t immediate = 0;  ///< immediate data, or the R_Key of an IETH
  std::uint32_t xrc_srq = 0;
  std::uint32_t qkey = 0, source_qpn = 0;
  std::uint8_t syndrome = 0;
  std::uint32_t msn = 0;
  std::uint64_t original = 0;
  std::uint8_t cnp_reserved = 0;  ///< first reserved byte of a CNP, which must be zero
};

/// State that only faults of the decoder use.
struct PacketFaultState {
  Bytes received;                     ///< the frame before a fault changed it
  std::vector<std::uint8_t> changed;  ///< the frame that is decoded instead
};

/// A received packet.
struct Packet {
  PacketFields fields;
  const Opcode* op = nullptr;  ///< the opcode, even if the specification does not define it
  std::uint8_t tver = 0;
  Bytes payload;  ///< view of the payload in the frame, without pad
  Bytes network;  ///< view of the IPv4, IPv6 or GRH header
  Mac source_mac{};
  Gid sgid, dgid;
  GidType type = GidType::roce_v2;
  bool is_ipv4 = false;
  std::uint16_t vlan = 0;  ///< 0: no tag or a priority tag
  std::uint8_t traffic_class = 0, sl = 0;
  bool reserved_bits = false;  ///< true: a reserved bit of the BTH, FECN or BECN is set
  PacketFaultState faults;

  /// True if a switch set CE. RFC 3168, 5.
  [[nodiscard]] bool congestion_experienced() const { return (traffic_class & 3) == 3; }
  /// True for a response or an acknowledgement.
  [[nodiscard]] bool is_response() const { return op->known && op->direction == Direction::response; }
};

/// Reason why a frame is dropped.
enum class Refusal : std::uint8_t {
  none,
  not_roce,   ///< not an RDMA packet
  not_ours,   ///< addressed to another MAC address, VLAN or IP address
  malformed,  ///< wrong length, version or flag, or a fragment: CA17-24, CA17-27
  icrc,       ///< wrong ICRC: CA17-24
};

/// A packet to send.
struct OutgoingPacket {
  PacketFields fields;
  AddressVector path;
  std::uint16_t source_port = 0xc000;
  std::uint8_t ecn = 0;  ///< ECN bits of the traffic class: CA17-5, CA17-14
  std::vector<std::uint8_t> payload;
};
/// Encode the frame. nullopt: the GID entry of the path is empty, or the destination's Ethernet address is unknown.
std::optional<std::vector<std::uint8_t>> make_frame(const OutgoingPacket& packet, const Port& port,
                                                    const EncodingDecisions& decisions);
/// The same, with the decisions of a conforming device.
std::optional<std::vector<std::uint8_t>> make_frame(const OutgoingPacket& packet, const Port& port);

}  // namespace rdmawire::device
