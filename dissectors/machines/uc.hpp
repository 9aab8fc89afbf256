#pragma once
/// Responder of an unreliable connection (UC). It sends no responses. It drops an invalid message, and accepts the next
/// message with any PSN. Pure functions of small values. IBTA vol 1, 9.8.2, table 63 (clause numbers of single
/// statements not verified).

#include <cstdint>

#include "dissectors/machines/message_sequence.hpp"
#include "dissectors/machines/rc_responder.hpp"

namespace rdmawire::machines {

/// Reaction to a packet.
enum class UcReaction : std::uint8_t {
  execute,  ///< the packet starts or continues a message
  drop,     ///< the packet is dropped silently, and an open message is lost
};

struct UcDecision {
  UcReaction reaction = UcReaction::drop;
  /// True if an open message is lost. Its receive work request is reused (own receive queue, class D1), or completes
  /// with an error (shared receive queue, class E).
  bool abandons = false;
  /// True if the message exceeds the receive buffer, which then completes with an error if it belongs to a shared
  /// receive queue (class E).
  bool too_long = false;

  friend constexpr bool operator==(const UcDecision&, const UcDecision&) = default;
};

/// State of the receiver between two packets.
struct UcResponder {
  UcReceiverWindow window;
  MessageSequence sequence;
  std::uint64_t va = 0;      ///< address of the next packet of an open WRITE
  std::uint32_t rkey = 0;    ///< R_Key of the open WRITE
  std::uint32_t length = 0;  ///< length of the open WRITE, from its RETH
  std::uint32_t done = 0;    ///< bytes of the open message received so far

  static constexpr UcResponder expecting(Psn psn) {
    UcResponder responder;
    responder.window.expected = psn;
    return responder;
  }
};

/// True if the packet's headers are valid, and may follow the preceding packets.
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

/// Evaluates a packet. `knowledge` is a function from the RcRequest to RcKnowledge. It is called at most once, and only
/// if the headers are valid.
template <class Knowledge>
constexpr UcDecision judge(const UcResponder& at, const RcRequest& request, std::uint32_t mtu,
                           const Knowledge& knowledge) {
  const Opcode& op = *request.op;
  const bool begins = op.known && op.begins_message();
  // The PSN is unexpected inside a message: an earlier packet of the open message is lost.
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

/// Returns the state after a packet was executed.
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

/// Returns the state after a packet was dropped. The open message is lost, and PSNs continue from this packet.
constexpr UcResponder dropped(UcResponder at, const RcRequest& request) {
  at.sequence.inside = false;
  at.window = at.window.after(request.psn);
  return at;
}

}  // namespace rdmawire::machines
