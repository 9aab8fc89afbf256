#pragma once
/// Valid sequences of packets in a message: first, middle, last, or only. IBTA vol 1, 9.7.4.1 (clause number not
/// verified).

#include <cstdint>

#include "dissectors/protocol/opcode.hpp"

namespace rdmawire::machines {

/// State of a sender's requests between two packets.
struct MessageSequence {
  bool inside = false;                    ///< a message was started, but not finished
  Operation operation = Operation::send;  ///< operation of that message

  /// True if a request with this opcode is valid as the next packet.
  [[nodiscard]] constexpr bool allows(const Opcode& op) const {
    if (op.begins_message()) return !inside;
    return inside && op.operation == operation;
  }
  /// Returns the state after a request with this opcode.
  [[nodiscard]] constexpr MessageSequence after(const Opcode& op) const { return {!op.ends_message(), op.operation}; }
};

/// True if the payload length is valid for the packet's position. First and middle packets must be full, and a last
/// packet must contain payload. The path MTU is the maximum for all packets. IBTA vol 1, 9.7.4.1.6.
constexpr bool fits(const Opcode& op, std::uint32_t payload, std::uint32_t mtu) {
  switch (op.position) {
    case Position::first:
    case Position::middle: return payload == mtu;
    case Position::last: return payload >= 1 && payload <= mtu;
    case Position::only: return payload <= mtu;
  }
  return true;
}

}  // namespace rdmawire::machines
