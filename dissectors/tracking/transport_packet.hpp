#pragma once
/// The fields of a packet that QP tracking needs. They do not refer to the packet's bytes, so they can be queued.

#include <cstdint>

#include "dissectors/protocol/modular.hpp"
#include "dissectors/protocol/opcode.hpp"
#include "dissectors/tracking/address.hpp"
#include "dissectors/tracking/packet.hpp"

namespace rdmawire::tracking {

/// ECN codepoint CE (RFC 3168, 5): a switch on the path is congested.
inline constexpr std::uint32_t congestion_experienced = 3;

struct TransportPacket {
  TransportPacket() {}  // NOLINT(modernize-use-equals-default): user-provided, so that {} sets each byte once

  std::uint64_t frame = 0;
  std::int64_t time = 0;
  PortAddress from, to;
  const Opcode* op = nullptr;
  std::uint32_t dest_qp = 0;
  Psn psn;
  std::uint32_t payload = 0;      ///< payload bytes on the wire, without padding
  std::uint32_t wire_bytes = 0;   ///< length of the whole packet on the wire in bytes
  std::uint32_t icrc = 0;         ///< ICRC in the packet (0 if truncated)
  std::uint16_t source_port = 0;  ///< UDP source port (0: none)
  std::uint16_t pkey = 0;
  std::uint16_t identification = 0;  ///< IPv4 identification (0: not IPv4)
  std::uint8_t traffic_class = 0;    ///< DSCP and ECN
  std::uint8_t syndrome = 0;
  Wire wire = Wire::none;
  bool ack_request = false, solicited = false, migrated = false;
  bool has_aeth = false, has_reth = false, has_atomic = false;
  bool crc_bad = false;
  bool truncated =
      false;  ///< shorter than the length fields of its headers indicate, although it was captured completely
  bool damaged =
      false;  ///< the CRC is bad for an unknown reason, while CRCs of other packets are good: any field can be wrong
  bool payload_known =
      false;  ///< payload_crc is set. Requires TrackerOptions::transport and a payload that is not truncated
  Msn msn;
  std::uint32_t key = 0, length = 0;  ///< fields of the RETH or AtomicETH
  std::uint64_t address = 0;
  std::uint64_t operand = 0,
                compare = 0;  ///< fields of the AtomicETH (operand: also the original value in an AtomicAckETH)
  std::uint32_t immediate = 0, invalidated_key = 0;
  std::uint32_t source_qp = 0, qkey = 0;  ///< fields of the DETH
  std::uint32_t payload_at = 0;           ///< offset of the payload in the packet
  std::uint32_t payload_crc = 0;          ///< CRC32C of the payload, to compare packets (valid if payload_known)

  [[nodiscard]] FlowKey key_of_flow() const { return {from, to, dest_qp}; }
  [[nodiscard]] bool is_response() const { return op->direction == Direction::response; }
};

/// Returns where the transport packet including its ICRC ends, according to the length field of the lower layer. The
/// result is an offset in the stack's bytes, or beyond them. 0: there is no such field.
std::uint32_t declared_end(const HeaderStack& stack);

/// True if a switch removed the payload: the frame on the wire is shorter than its length fields indicate. False for a
/// packet that the capture truncated.
inline bool is_trimmed(const HeaderStack& stack) { return stack.cut && stack.wire_length == stack.bytes.size(); }

/// True for a packet of InfiniBand's transport that has a BTH and addresses.
bool has_transport(const Packet& packet);
/// Reads `packet` into `t`, which must be default-constructed. Returns false if the packet does not belong to
/// InfiniBand's transport, or if its BTH or addresses are missing.
bool read_transport_packet(const Packet& packet, TransportPacket& t);
/// Sets payload_known and payload_crc. Must be called after read_transport_packet().
void read_payload_crc(const Packet& packet, TransportPacket& t);

}  // namespace rdmawire::tracking
