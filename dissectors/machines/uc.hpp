#pragma once
/// The responder of an unreliable connection (UC): it answers nothing; a message with a fault is dropped whole, and the
/// next one is taken at its own PSN. Pure functions of small values. IBTA vol 1, 9.8.2, table 63 (numbers of single
/// statements unverified).

#include <cstdint>

#include "dissectors/machines/message_sequence.hpp"
#include "dissectors/machines/rc_responder.hpp"

namespace rdmawire::machines {

/// What is done with a packet.
enum class UcReaction : std::uint8_t {
  execute,  ///< it goes on with its message, or begins one
  drop,     ///< silence; a message that was open is lost
};

struct UcDecision {
  UcReaction reaction = UcReaction::drop;
  /// A message was open, and is lost: with a queue of its own the receive is used again (class D1), one of a shared
  /// queue completes in error (class E).
  bool abandons = false;
  bool too_long = false;  ///< for the receive that is there; one of a shared queue completes in error (class E)

  friend constexpr bool operator==(const UcDecision&, const UcDecision&) = default;
};

/// Where the receiver stands between two packets.
struct UcResponder {
  UcReceiverWindow window;
  MessageSequence sequence;
  std::uint64_t va = 0;      ///< where the next packet of an open WRITE goes
  std::uint32_t rkey = 0;    ///< of the open WRITE
  std::uint32_t length = 0;  ///< of the open WRITE, as its RETH said
  std::uint32_t done = 0;    ///< bytes of the open message

  static constexpr UcResponder expecting(Psn psn) {
    UcResponder responder;
    responder.window.expected = psn;
    return responder;
  }
};

/// Whether a packet's own headers, and the packets before it, allow it.
constexpr bool well_formed(const UcResponder& at, const RcRequest& request, std::uint32_t mtu) {
  const Opcode& op = *request.op;
  if (!op.known || op.transport != Transport::uc || op.direction != Direction::request) return false;
  if (op.operation != Operation::send && op.operation != Operation::rdma_write) return false;
  if (!fits(op, request.payload, mtu)) return false;
  if (op.begins_message()) {
    if (op.operation == Operation::rdma_write && request.length > longest_message) return false;
  } else if (!at.sequence.allows(op)) {
    return false;
  }
  const std::uint64_t through = (op.begins_message() ? 0 : std::uint64_t{at.done}) + request.payload;
  if (op.operation == Operation::send) return through <= longest_message;
  const std::uint64_t whole = op.begins_message() ? request.length : at.length;
  return op.ends_message() ? through == whole : through < whole;
}

/// What a packet does. `knowledge` is a function RcRequest → RcKnowledge, called at most once and only where the
/// headers do not condemn the packet.
template <class Knowledge>
constexpr UcDecision judge(const UcResponder& at, const RcRequest& request, std::uint32_t mtu,
                           const Knowledge& knowledge) {
  const Opcode& op = *request.op;
  const bool begins = op.known && op.begins_message();
  // A packet that does not begin a message, out of its place: the open message has lost one.
  if (!at.window.accepts(request.psn, begins)) return {.abandons = at.sequence.inside};
  if (!well_formed(at, request, mtu)) return {.abandons = at.sequence.inside};
  UcDecision decision{.reaction = UcReaction::execute, .abandons = begins && at.sequence.inside};
  const RcKnowledge known = knowledge(request);
  const bool receives = op.operation == Operation::send || op.immediate;
  if (receives) {
    const std::uint64_t through = (begins ? 0 : std::uint64_t{at.done}) + request.payload;
    if (!known.receive) return {.abandons = at.sequence.inside};
    if (op.operation == Operation::send && through > known.receive_bytes)
      return {.abandons = at.sequence.inside, .too_long = true};
  }
  if (asks_access(request) && known.access != Access::granted) return {.abandons = at.sequence.inside};
  return decision;
}

/// After a packet was executed.
constexpr UcResponder executed(UcResponder at, const RcRequest& request) {
  const Opcode& op = *request.op;
  if (op.begins_message()) {
    at.done = 0;
    at.va = request.va;
    at.rkey = request.rkey;
    at.length = request.length;
  }
  at.va += request.payload;
  at.done += request.payload;
  at.sequence = at.sequence.after(op);
  at.window = at.window.after(request.psn);
  return at;
}

/// After a packet was dropped: what was open is lost, and the PSNs go on from this one.
constexpr UcResponder dropped(UcResponder at, const RcRequest& request) {
  at.sequence.inside = false;
  at.window = at.window.after(request.psn);
  return at;
}

}  // namespace rdmawire::machines
