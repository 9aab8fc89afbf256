#pragma once
/// Responder of a reliable connection (RC, or the target of XRC): evaluates requests. Pure functions of small values.
/// Time, memory and receive queues are arguments.
///
/// A request is validated in the order that the specification defines. First its PSN, its headers and the preceding
/// packets are checked, which are visible on the wire. Then the state of the device: receive queue, keys, rights. IBTA
/// vol 1, 9.7.3 to 9.7.5 (clause numbers of single statements are only verified where stated).

#include <array>
#include <cstdint>
#include <optional>

#include "dissectors/machines/message_sequence.hpp"
#include "dissectors/machines/psn_window.hpp"
#include "dissectors/protocol/syndrome.hpp"

namespace rdmawire::machines {

/// A request packet that the responder evaluates.
struct RcRequest {
  const Opcode* op = nullptr;  ///< set in every request, possibly to an undefined opcode
  Psn psn;
  bool wants_acknowledge = false;
  std::uint32_t payload = 0;  ///< payload bytes without padding
  std::uint64_t va = 0;       ///< address in the RETH or AtomicETH
  std::uint32_t rkey = 0;
  std::uint32_t length = 0;       ///< length in the RETH: bytes of the whole message
  std::uint64_t swap_or_add = 0;  ///< value in the AtomicETH
  std::uint64_t compare = 0;      ///< value in the AtomicETH
  std::uint8_t placement = 0;     ///< requested placement types in the FETH
  std::uint8_t selectivity = 0;   ///< range or region, in the FETH
};

constexpr bool is_atomic(Operation operation) {
  return operation == Operation::compare_swap || operation == Operation::fetch_add;
}
/// Returns whether the responder keeps the response of the operation for duplicate requests. It does so for READs,
/// atomics, and the operations of A19 that have a READ response.
constexpr bool keeps_answer(Operation operation) {
  return operation == Operation::rdma_read_request || is_atomic(operation) || operation == Operation::atomic_write ||
         operation == Operation::flush;
}
/// True if the message consumes a receive work request when it ends.
constexpr bool takes_receive(const Opcode& op) { return op.operation == Operation::send || op.immediate; }
/// True if packets of this operation access memory with a key.
constexpr bool uses_key(Operation operation) { return operation == Operation::rdma_write || keeps_answer(operation); }

/// Negotiated parameters of a connection and rights of its QP.
struct RcResponderSettings {
  std::uint32_t mtu = 1024;          ///< maximum payload in bytes
  std::uint32_t reads_at_once = 16;  ///< maximum number of READ and atomic responses that are kept: max_dest_rd_atomic
  bool writes = false, reads = false, atomics = false;                 ///< rights of the QP
  bool flush_global = false, flush_persistent = false;                 ///< rights of the QP for FLUSH (A19)
  bool has_atomics = true, has_atomic_write = true, has_flush = true;  ///< the device supports the operation
};

/// Reason to reject a request because of its headers or the QP's settings.
enum class InvalidRequest : std::uint8_t {
  opcode,             ///< reserved or unsupported
  sequence,           ///< the opcode must not follow the preceding packet
  payload,            ///< the payload is too long, or too short for the packet's position
  message_length,     ///< the total payload of a WRITE differs from the length in its RETH
  message_too_long,   ///< the RETH contains a length of more than 2^31 bytes: C9-94
  misaligned,         ///< the address of an atomic is not a multiple of 8: 9.4.5
  atomic_write_size,  ///< an ATOMIC WRITE is not eight bytes long: oA19-28
  flush_form,         ///< a FLUSH has payload, or is inside another message: oA19-1, oA19-2
  right,              ///< the QP does not permit the operation
  resources,          ///< the QP has no resources for READs or atomics
};

/// A response that is kept for duplicate requests.
struct RcAnswer {
  Psn psn;                 ///< PSN of the request
  std::uint32_t psns = 0;  ///< number of PSNs that the request uses (0: the entry is unused)
  Operation operation = Operation::rdma_read_request;
  std::uint64_t va = 0;
  std::uint32_t rkey = 0;
  std::uint32_t length = 0;
  std::uint64_t original = 0;  ///< atomics: value in memory before the operation
};

/// Reaction to a request.
enum class RcReaction : std::uint8_t {
  execute,            ///< execute the request, which is expected and valid
  acknowledge_again,  ///< acknowledge again: a duplicate SEND or WRITE. C9-105
  answer_again,       ///< send the kept response again: a duplicate READ, atomic, FLUSH or ATOMIC WRITE. 9.4.4
  drop,               ///< send no response
  nak_sequence,       ///< NAK for a sequence error: the first packet after a gap
  nak_invalid,
  nak_access,
  nak_operational,
  rnr_nak,
};

/// Result of a memory access.
enum class Access : std::uint8_t { granted, refused, failed };

struct RcDecision {
  RcReaction reaction = RcReaction::drop;
  InvalidRequest invalid = InvalidRequest::opcode;  ///< reason for nak_invalid
  std::uint8_t answer = 0;                          ///< index of the kept response for answer_again

  friend constexpr bool operator==(const RcDecision&, const RcDecision&) = default;
};

/// State of a responder between two packets.
struct RcResponder {
  static constexpr std::size_t most_answers = 128;

  ResponderWindow window;
  Msn msn;  ///< number of completed messages: C9-148
  MessageSequence sequence;
  bool nak_sent = false;     ///< a NAK reported the gap, and the missing packet has not arrived yet
  std::uint64_t va = 0;      ///< address of the next packet of an open WRITE
  std::uint32_t rkey = 0;    ///< R_Key of the open WRITE
  std::uint32_t length = 0;  ///< length of the open WRITE, from its RETH
  std::uint32_t done = 0;    ///< bytes of the open message received so far
  Psn acknowledged;          ///< PSN of the last executed SEND or WRITE packet, with which duplicates are acknowledged
  std::uint8_t newest = 0;   ///< index of the newest kept response
  std::array<RcAnswer, most_answers> answers{};

  static constexpr RcResponder expecting(Psn psn) {
    RcResponder responder;
    responder.window.expected = psn;
    responder.acknowledged = psn - 1;
    return responder;
  }
};

/// Maximum length of a message in bytes. 9.7.7, C9-94.
inline constexpr std::uint32_t longest_message = 1U << 31;

/// Returns the number of PSNs that a request uses.
constexpr std::uint32_t psns_of(const RcRequest& request, std::uint32_t mtu) {
  return request.op->operation == Operation::rdma_read_request ? psns_of_read(request.length, mtu) : 1;
}

/// Returns the error of an expected request according to its headers and the preceding packets.
constexpr std::optional<InvalidRequest> malformed(const RcResponder& at, const RcRequest& request,
                                                  const RcResponderSettings& settings) {
  const Opcode& op = *request.op;
  if (!op.known || op.direction != Direction::request || op.operation == Operation::resync ||
      (is_atomic(op.operation) && !settings.has_atomics) ||
      (op.operation == Operation::atomic_write && !settings.has_atomic_write) ||
      (op.operation == Operation::flush && !settings.has_flush))
    return InvalidRequest::opcode;
  if (!at.sequence.allows(op)) return InvalidRequest::sequence;
  if (op.operation == Operation::flush) {
    if (request.payload != 0) return InvalidRequest::flush_form;
  } else if (op.operation == Operation::atomic_write) {
    if (request.payload != 8 || request.length != 8) return InvalidRequest::atomic_write_size;
    if (request.va % 8 != 0) return InvalidRequest::misaligned;
  } else if (is_atomic(op.operation)) {
    if (request.va % 8 != 0) return InvalidRequest::misaligned;
  } else if (op.payload) {
    if (!fits(op, request.payload, settings.mtu)) return InvalidRequest::payload;
  }
  const bool has_reth =
      op.begins_message() && (op.operation == Operation::rdma_write || op.operation == Operation::rdma_read_request);
  if (has_reth && request.length > longest_message) return InvalidRequest::message_too_long;
  if (op.operation == Operation::rdma_write) {
    const std::uint64_t whole = op.begins_message() ? request.length : at.length;
    const std::uint64_t through = (op.begins_message() ? 0 : std::uint64_t{at.done}) + request.payload;
    if (op.ends_message() ? through != whole : through >= whole) return InvalidRequest::message_length;
  } else if (op.operation == Operation::send) {
    if ((op.begins_message() ? 0 : std::uint64_t{at.done}) + request.payload > longest_message)
      return InvalidRequest::message_too_long;
  }
  return std::nullopt;
}

/// Returns an error if the QP does not permit the operation, regardless of the key. Linux and hardware respond with an
/// invalid request NAK. Whether the specification requires this error class is not verified.
constexpr std::optional<InvalidRequest> not_allowed(const RcRequest& request, const RcResponderSettings& settings) {
  const auto unless = [](bool allowed) { return allowed ? std::nullopt : std::optional(InvalidRequest::right); };
  switch (request.op->operation) {
    case Operation::rdma_write:
    case Operation::atomic_write: return unless(settings.writes);
    case Operation::rdma_read_request:
      if (settings.reads && settings.reads_at_once == 0) return InvalidRequest::resources;
      return unless(settings.reads);
    case Operation::compare_swap:
    case Operation::fetch_add:
      if (settings.atomics && settings.reads_at_once == 0) return InvalidRequest::resources;
      return unless(settings.atomics);
    case Operation::flush:
      return unless((!(request.placement & 1) || settings.flush_global) &&
                    (!(request.placement & 2) || settings.flush_persistent));
    default: return std::nullopt;
  }
}

/// Evaluates a duplicate request. A retry of a READ can request a part of the READ, but not more than the original
/// range.
constexpr RcDecision judge_duplicate(const RcResponder& at, const RcRequest& request,
                                     const RcResponderSettings& settings) {
  const Opcode& op = *request.op;
  if (!op.known || op.direction != Direction::request) return {};
  if (!keeps_answer(op.operation)) return {.reaction = RcReaction::acknowledge_again};
  const std::size_t kept =
      settings.reads_at_once < RcResponder::most_answers ? settings.reads_at_once : RcResponder::most_answers;
  for (std::size_t i = 0; i < kept; ++i) {
    const auto slot =
        static_cast<std::uint8_t>((at.newest + RcResponder::most_answers - i) % RcResponder::most_answers);
    const RcAnswer& answer = at.answers[slot];
    if (answer.psns == 0 || answer.operation != op.operation) continue;
    const std::int32_t into = request.psn - answer.psn;
    if (into < 0 || into >= static_cast<std::int32_t>(answer.psns)) continue;
    if (op.operation == Operation::rdma_read_request) {
      const std::uint64_t offset = request.va - answer.va;
      if (request.rkey != answer.rkey || offset > answer.length ||
          offset != std::uint64_t{static_cast<std::uint32_t>(into)} * settings.mtu ||
          request.length > answer.length - offset)
        return {};
    }
    return {.reaction = RcReaction::answer_again, .answer = slot};
  }
  return {};
}

/// Device state that the evaluation of a valid expected request needs.
struct RcKnowledge {
  bool receive = true;                  ///< a receive work request is posted (only used if asks_receive() is true)
  std::uint64_t receive_bytes = ~0ULL;  ///< bytes in the receive work request, counted from the start of the message
  Access access = Access::granted;      ///< result of the memory access (only used if asks_access() is true)
};

/// asks_receive() and asks_access() return whether the evaluation needs the receive queue or the memory access, so that
/// the caller can omit expensive look-ups.
constexpr bool asks_receive(const RcResponder& at, const Opcode& op) {
  if (op.operation == Operation::send) return op.begins_message() || at.sequence.inside;
  return op.immediate;
}
constexpr bool asks_access(const RcRequest& request) {
  // C9-88: the key is ignored in a message of zero bytes.
  return uses_key(request.op->operation) &&
         !(request.op->begins_message() && request.length == 0 &&
           (request.op->operation == Operation::rdma_write || request.op->operation == Operation::rdma_read_request));
}

/// Evaluates a request. `knowledge` is a function from the RcRequest to RcKnowledge. It is called at most once, and
/// only for an expected request with valid headers.
template <class Knowledge>
constexpr RcDecision judge(const RcResponder& at, const RcRequest& request, const RcResponderSettings& settings,
                           const Knowledge& knowledge) {
  if (request.op->known && request.op->direction != Direction::request) return {};
  switch (at.window.place(request.psn)) {
    case RequestPlace::duplicate: return judge_duplicate(at, request, settings);
    case RequestPlace::ahead: return {.reaction = at.nak_sent ? RcReaction::drop : RcReaction::nak_sequence};
    case RequestPlace::expected: break;
  }
  if (const auto invalid = malformed(at, request, settings))
    return {.reaction = RcReaction::nak_invalid, .invalid = *invalid};
  if (const auto invalid = not_allowed(request, settings))
    return {.reaction = RcReaction::nak_invalid, .invalid = *invalid};
  const RcKnowledge known = knowledge(request);
  const Opcode& op = *request.op;
  if (asks_receive(at, op)) {
    if (!known.receive) return {.reaction = RcReaction::rnr_nak};
    const std::uint64_t through = (op.begins_message() ? 0 : std::uint64_t{at.done}) + request.payload;
    if (op.operation == Operation::send && through > known.receive_bytes)
      return {.reaction = RcReaction::nak_invalid, .invalid = InvalidRequest::payload};
  }
  if (asks_access(request)) {
    if (known.access == Access::refused) return {.reaction = RcReaction::nak_access};
    if (known.access == Access::failed) return {.reaction = RcReaction::nak_operational};
  }
  return {.reaction = RcReaction::execute};
}

/// Returns the state after an expected request was executed. `original` is the previous value in memory for an atomic.
constexpr RcResponder executed(RcResponder at, const RcRequest& request, const RcResponderSettings& settings,
                               std::uint64_t original = 0) {
  const Opcode& op = *request.op;
  const std::uint32_t psns = psns_of(request, settings.mtu);
  at.window = at.window.after(request.psn, psns);
  at.nak_sent = false;
  at.sequence = at.sequence.after(op);
  if (op.begins_message()) {
    at.done = 0;
    if (op.operation == Operation::rdma_write) {
      at.va = request.va;
      at.rkey = request.rkey;
      at.length = request.length;
    }
  }
  if (keeps_answer(op.operation)) {
    at.newest = static_cast<std::uint8_t>((at.newest + 1) % RcResponder::most_answers);
    at.answers[at.newest] = {request.psn, psns, op.operation, request.va, request.rkey, request.length, original};
  } else {
    at.acknowledged = request.psn;
    at.va += request.payload;
    at.done += request.payload;
  }
  if (op.ends_message()) at.msn += 1;
  return at;
}

/// Returns the state after a NAK for a sequence error was sent.
constexpr RcResponder reported_gap(RcResponder at) {
  at.nak_sent = true;
  return at;
}

}  // namespace rdmawire::machines
