#pragma once
/// Receiver of datagrams (UD, and the general services interface): decides which datagrams are accepted. Pure
/// functions. IBTA vol 1, 9.8.3, C9-205.

#include <cstdint>

#include "dissectors/protocol/opcode.hpp"

namespace rdmawire::machines {

/// Number of bytes before the payload of a datagram in the receive buffer. They contain the GRH, or for RoCEv2 over
/// IPv4 the IP header in the last 20 bytes. 11.4.1.2, A17.4.5.2.
inline constexpr std::uint32_t ud_header_bytes = 40;

/// Q_Key of the general services interface. 9.6.1.4.1 (value not verified).
inline constexpr std::uint32_t gsi_qkey = 0x80010000;

/// Returns the Q_Key that a request sends. If the high bit of the Q_Key in the work request is set, it is the QP's own.
/// 10.2.5.
constexpr std::uint32_t sent_qkey(std::uint32_t given, std::uint32_t own) {
  return (given & 0x80000000U) != 0 ? own : given;
}

enum class UdReaction : std::uint8_t { deliver, drop };

/// `receive` is true if a receive work request is posted, and `space` is its number of bytes.
constexpr UdReaction judge_datagram(const Opcode& op, std::uint32_t payload, std::uint32_t mtu, bool receive,
                                    std::uint64_t space) {
  const bool good = op.known && op.transport == Transport::ud && op.operation == Operation::send &&
                    op.position == Position::only && payload <= mtu && receive &&
                    std::uint64_t{payload} + ud_header_bytes <= space;
  return good ? UdReaction::deliver : UdReaction::drop;
}

}  // namespace rdmawire::machines
