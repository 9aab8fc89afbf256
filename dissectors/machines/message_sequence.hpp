#pragma once
/// Which packet may follow which: first, middle, last, only. IBTA vol 1, 9.7.4.1 (clause number not verified).

#include <cstdint>

#include "dissectors/protocol/opcode.hpp"

namespace rdmawire::machines {

/// Where a sender's requests stand between two packets.
struct MessageSequence {
  bool inside = false;                    ///< a message was begun and not ended
  Operation operation = Operation::send;  ///< of that message

  /// Whether a request with this opcode can come next.
  [[nodiscard]] constexpr bool allows(const Opcode& op) const {
    if (op.begins_message()) return !inside;
    return inside && op.operation == operation;
  }
  /// After that request.
  [[nodiscard]] constexpr MessageSequence after(const Opcode& op) const { return {!op.ends_message(), op.operation}; }
};

/// Whether a request's payload fits its place: all but the last packet of a message are full, none is longer than the
/// path MTU, a last one is not empty. IBTA vol 1, 9.7.4.1.6.
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
