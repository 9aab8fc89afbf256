#pragma once
/// A packet as the device sees it: what its headers say. Read from a frame, or made into one.

#include <cstdint>
#include <optional>
#include <vector>

#include "conformance/device/roce/addresses.hpp"
#include "conformance/device/roce/faults.hpp"
#include "dissectors/protocol/bits.hpp"
#include "dissectors/protocol/modular.hpp"
#include "dissectors/protocol/opcode.hpp"

namespace rdmawire::device {

struct Port;

/// BTH and what follows it. Only what the opcode has is meant.
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
  std::uint32_t immediate = 0;  ///< or the key of an IETH
  std::uint32_t xrc_srq = 0;
  std::uint32_t qkey = 0, source_qpn = 0;
  std::uint8_t syndrome = 0;
  std::uint32_t msn = 0;
  std::uint64_t original = 0;
  std::uint8_t cnp_reserved = 0;  ///< of a CNP: a byte that has to be zero
};

/// A packet that arrived.
struct Packet {
  PacketFields fields;
  const Opcode* op = nullptr;  ///< may be one that the specification does not define
  std::uint8_t tver = 0;
  Bytes payload;  ///< without pad; belongs to the frame
  Bytes network;  ///< the IPv4, IPv6 or GRH header
  Mac source_mac{};
  Gid sgid, dgid;
  GidType type = GidType::roce_v2;
  bool is_ipv4 = false;
  std::uint16_t vlan = 0;  ///< 0: no tag, or one of priority alone
  std::uint8_t traffic_class = 0, sl = 0;
  bool reserved_bits = false;           ///< one of the BTH's, or FECN or BECN, is set
  std::vector<std::uint8_t> storage{};  ///< of a frame that a fault makes out of another one

  /// A switch marked it. RFC 3168, 5.
  [[nodiscard]] bool congestion_experienced() const { return (traffic_class & 3) == 3; }
};

/// Why a frame is not taken.
enum class Refusal : std::uint8_t {
  none,
  not_roce,   ///< nothing that concerns RDMA
  not_ours,   ///< for another MAC, VLAN or address
  malformed,  ///< lengths, versions, flags, fragments: CA17-24, CA17-27
  icrc,       ///< CA17-24
};

/// Reads a frame and judges what any RoCE packet must be, whatever its destination. `packet` refers to `frame`.
Refusal read_packet(Packet& packet, Bytes frame, const Port& port, const Faults& faults);

/// Everything of a packet that is to leave.
struct OutgoingPacket {
  PacketFields fields;
  AddressVector path;
  std::uint16_t source_port = 0xc000;
  std::uint8_t ecn = 0;  ///< of the traffic class: CA17-5, CA17-14
  std::vector<std::uint8_t> payload;
};
/// The frame. Nothing: the path's GID index is empty, or nobody knows the Ethernet address of its destination.
std::optional<std::vector<std::uint8_t>> make_frame(const OutgoingPacket& packet, const Port& port,
                                                    const Faults& faults);

}  // namespace rdmawire::device
