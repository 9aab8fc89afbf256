#pragma once
/// Valid sequences of packets in a message: first, middle, last, only. IBTA vol 1, 9.7.4.1 (clause number not
/// verified).

#include <cstdint>

#include "dissectors/protocol/opcode.hpp"

namespace rdmawire::machines {

/// State of a sender's requests between two packets.
struct MessageSequence {
  bool inside = false;                    ///< a message is started and not finished
  Operation operation = Operation::send;  ///< of that message

  /// True if a request with this opcode is valid next.
  [[nodiscard]] constexpr bool allows(const Opcode& op) const {
    if (op.begins_message()) return !inside;
    return inside && op.operation == operation;
  }
  /// Returns the state after that request.
  [[nodiscard]] constexpr MessageSequence after(const Opcode& op) const { return {!op.ends_message(), op.operation}; }
};

/// True if the payload length is valid for the packet's position: first and middle packets are full, no packet exceeds
/// the path MTU, and a last packet is not empty. IBTA vol 1, 9.7.4.1.6.
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
