/// The responder of reliable connections: what an arriving request does. IBTA vol 1, 9.7.3 to 9.7.5, 9.9.3.

#include "conformance/device/responder.hpp"

#include <algorithm>

#include "conformance/device/core.hpp"

namespace rdmawire::device {

namespace {

using machines::RcReaction;
using machines::RcRequest;

RcRequest request_of(const Packet& packet) {
  const PacketFields& from = packet.fields;
  return {.op = packet.op,
          .psn = from.psn,
          .wants_acknowledge = from.ack_request,
          .payload = static_cast<std::uint32_t>(packet.payload.size()),
          .va = from.va,
          .rkey = from.rkey,
          .length = from.length,
          .swap_or_add = from.swap_add,
          .compare = from.compare,
          .placement = from.placement,
          .selectivity = from.selectivity};
}

std::uint32_t rights_for(const RcRequest& request) {
  switch (request.op->operation) {
    case Operation::rdma_read_request: return access::remote_read;
    case Operation::compare_swap:
    case Operation::fetch_add: return access::remote_atomic;
    case Operation::flush:
      return ((request.placement & 1) != 0 ? access::flush_global : 0) |
             ((request.placement & 2) != 0 ? access::flush_persistent : 0);
    default: return access::remote_write;
  }
}

/// The shared queue that the packet's receive comes from: its handle, 0 for the queue pair's own; nothing: XRC names
/// one that is not in the domain.
std::optional<std::uint32_t> receive_queue(Core& core, const QueuePair& qp, const Packet& packet) {
  if (qp.options.type != QpType::xrc_target) return qp.options.srq;
  for (const auto& [handle, srq] : core.srqs)
    if (srq.number == packet.fields.xrc_srq && srq.xrcd != 0 && srq.xrcd == qp.options.xrcd) return handle;
  return std::nullopt;
}

/// Where the octets that a request reaches lie in the consumer's memory; empty when there are none, or refused.
struct Reached {
  bool granted = false, exists = false;
  MutableBytes octets;
};
Reached reach(Core& core, QueuePair& qp, const RcRequest& request) {
  const Opcode& op = *request.op;
  const Accessor who{qp.options.pd, qp.qpn};
  const std::uint32_t rights = rights_for(request);
  std::uint64_t va = request.va, octets = request.length;
  std::uint32_t rkey = request.rkey;
  if (machines::is_atomic(op.operation)) octets = 8;
  if (op.operation == Operation::rdma_write && !op.begins_message()) {
    va = qp.responder.state.va;
    rkey = qp.responder.state.rkey;
    octets = request.payload;
  }
  if (op.operation == Operation::flush && request.selectivity == 1) {  // A19.4.1.2: the range is not looked at
    const bool granted = core.memory.remote(who, rkey, va, octets, rights, true).has_value();
    return {granted, granted, {}};
  }
  const auto host = core.memory.remote(who, rkey, va, octets, rights);
  if (!host) return {};
  const MutableBytes found = core.memory.at(*host, octets);
  return {true, octets == 0 || !found.empty(), found};
}

machines::RcKnowledge knowledge_of(Core& core, QueuePair& qp, const Packet& packet, const RcRequest& request) {
  machines::RcKnowledge known;
  const Opcode& op = *packet.op;
  if (machines::asks_receive(qp.responder.state, op)) {
    if (op.operation == Operation::send && !op.begins_message()) {
      known.receive_octets = qp.responder.receive ? qp.responder.receive->octets() : 0;
    } else {
      const auto queue = receive_queue(core, qp, packet);
      const ReceiveRequest* next = queue ? next_receive(core, qp, *queue) : nullptr;
      known.receive = next != nullptr;
      if (next) known.receive_octets = next->octets();
    }
  }
  if (machines::asks_access(request)) {
    const Reached reached = reach(core, qp, request);
    known.access = !reached.granted  ? machines::Access::refused
                   : !reached.exists ? machines::Access::failed
                                     : machines::Access::granted;
  }
  return known;
}

/// A receive that is complete: what its completion says.
Completion completion_of(const QueuePair& qp, const Packet& packet, std::uint64_t octets) {
  Completion completion;
  completion.opcode =
      packet.op->operation == Operation::rdma_write ? CompletionOpcode::receive_write_imm : CompletionOpcode::receive;
  completion.octets = static_cast<std::uint32_t>(octets);
  completion.has_immediate = packet.op->immediate;
  completion.has_invalidated = packet.op->invalidate;
  completion.immediate = packet.op->immediate || packet.op->invalidate ? packet.fields.immediate : 0;
  completion.source_qpn = qp.attributes.dest_qpn;
  completion.pkey_index = qp.attributes.pkey_index;
  return completion;
}

/// A request is refused for good: NAK, and the error state when it has left. 9.9.3.1.3, 10.10.2.2, 10.10.2.3.
void condemn(Core& core, QueuePair& qp, const Packet& packet, std::uint8_t code, Status status) {
  Responder& at = qp.responder;
  if (!at.receive && packet.op->known && packet.op->begins_message() && machines::takes_receive(*packet.op)) {
    if (const auto queue = receive_queue(core, qp, packet)) {
      at.receive = take_receive(core, qp, *queue);
      at.receive_srq = *queue;
    }
  }
  at.condemned = true;
  if (at.receive) {
    const ReceiveRequest request = std::move(*at.receive);
    at.receive.reset();
    complete_receive(core, qp, request, {.status = status, .opcode = CompletionOpcode::receive}, false);
  } else {
    core.event(code == nak_code::remote_access_error ? EventType::qp_access_error : EventType::qp_request_error,
               qp.handle);
  }
  if (qp.state == QpState::err) return;
  answer(core, qp, {.psn = packet.fields.psn, .syndrome = static_cast<std::uint8_t>(0x60 | code), .fatal = true});
}

/// An atomic; gives what memory held. 9.4.5.
std::uint64_t operate(MutableBytes octets, const RcRequest& request) {
  const std::uint64_t original = load_le(octets.data(), 8);
  if (request.op->operation == Operation::fetch_add)
    store_le(octets.data(), 8, original + request.swap_or_add);
  else if (original == request.compare)
    store_le(octets.data(), 8, request.swap_or_add);
  return original;
}

/// The part of a SEND, or the end of a WRITE, that a receive takes. False: the request was condemned.
bool deliver(Core& core, QueuePair& qp, const Packet& packet) {
  Responder& at = qp.responder;
  const Opcode& op = *packet.op;
  const bool send = op.operation == Operation::send;
  if (op.begins_message()) at.written = 0;
  if (send ? op.begins_message() : op.immediate) {
    const auto queue = receive_queue(core, qp, packet);
    at.receive = queue ? take_receive(core, qp, *queue) : std::nullopt;
    at.receive_srq = queue.value_or(0);
    if (!at.receive) return false;
  }
  if (send) {
    const std::uint32_t pd = at.receive_srq != 0 ? core.srq(at.receive_srq)->pd : qp.options.pd;
    const Status status = scatter(core, pd, at.receive->sges, at.written, packet.payload);
    if (status != Status::success) {
      condemn(core, qp, packet, nak_code::remote_operational_error, status);
      return false;
    }
  }
  at.written += packet.payload.size();
  if (!op.ends_message() || !at.receive) return true;
  if (op.invalidate && !core.memory.invalidate_remote(packet.fields.immediate, {qp.options.pd, qp.qpn})) {
    condemn(core, qp, packet, nak_code::remote_operational_error, Status::bind);
    return false;
  }
  const ReceiveRequest request = std::move(*at.receive);
  at.receive.reset();
  complete_receive(core, qp, request, completion_of(qp, packet, at.written), packet.fields.solicited);
  return qp.state != QpState::err;
}

void execute(Core& core, QueuePair& qp, const Packet& packet, const RcRequest& request) {
  Responder& at = qp.responder;
  const Opcode& op = *packet.op;
  std::uint64_t original = 0;
  if (op.operation == Operation::rdma_write || op.operation == Operation::atomic_write) {
    RcRequest part = request;
    if (op.operation == Operation::rdma_write && op.begins_message()) part.length = request.payload;
    if (request.payload != 0) {
      const Reached reached = reach(core, qp, part);
      std::copy_n(packet.payload.begin(), std::min(reached.octets.size(), packet.payload.size()),
                  reached.octets.begin());
    }
  } else if (machines::is_atomic(op.operation)) {
    const Reached reached = reach(core, qp, request);
    if (reached.octets.size() == 8) original = operate(reached.octets, request);
  }
  if (op.operation == Operation::send || op.operation == Operation::rdma_write)
    if (!deliver(core, qp, packet)) return;
  at.state = machines::executed(at.state, request, qp.responder_settings(), original);
  if (machines::keeps_answer(op.operation))
    answer_kept(core, qp, at.state.answers[at.state.newest], request);
  else if (request.wants_acknowledge)
    answer(core, qp, {.psn = request.psn, .syndrome = credits(core, qp), .msn = at.state.msn});
}

void react(Core& core, QueuePair& qp, const Packet& packet, const RcRequest& request,
           const machines::RcDecision& decision) {
  Responder& at = qp.responder;
  switch (decision.reaction) {
    case RcReaction::execute: execute(core, qp, packet, request); break;
    case RcReaction::acknowledge_again:
      ++core.counters.duplicate_request;
      answer(core, qp, {.psn = at.state.acknowledged, .syndrome = credits(core, qp), .msn = at.state.msn});
      break;
    case RcReaction::answer_again:
      ++core.counters.duplicate_request;
      answer_kept(core, qp, at.state.answers[decision.answer], request);
      break;
    case RcReaction::nak_sequence:
      ++core.counters.out_of_sequence;
      at.state = machines::reported_gap(at.state);
      answer(core, qp,
             {.psn = at.state.window.expected, .syndrome = 0x60 | nak_code::psn_sequence_error, .msn = at.state.msn});
      break;
    case RcReaction::rnr_nak:
      // What comes behind it is dropped without a word, until it comes again.
      at.state = machines::reported_gap(at.state);
      answer(core, qp,
             {.psn = request.psn,
              .syndrome = static_cast<std::uint8_t>(0x20 | qp.attributes.min_rnr_timer),
              .msn = at.state.msn});
      break;
    case RcReaction::nak_invalid:
      condemn(core, qp, packet, nak_code::invalid_request,
              decision.invalid == machines::InvalidRequest::payload && packet.op->operation == Operation::send
                  ? Status::local_length
                  : Status::remote_invalid_request);
      break;
    case RcReaction::nak_access: condemn(core, qp, packet, nak_code::remote_access_error, Status::remote_access); break;
    case RcReaction::nak_operational:
      condemn(core, qp, packet, nak_code::remote_operational_error, Status::local_access);
      break;
    case RcReaction::drop: break;
  }
}

}  // namespace

void receive_request(Core& core, QueuePair& qp, const Packet& packet) {
  if (!qp.takes_requests() || qp.responder.condemned) return;
  const RcRequest request = request_of(packet);
  const machines::RcDecision decision =
      machines::judge(qp.responder.state, request, qp.responder_settings(),
                      [&](const RcRequest& asked) { return knowledge_of(core, qp, packet, asked); });
  if (decision.reaction == RcReaction::execute && qp.state == QpState::rtr && !qp.established_told) {
    qp.established_told = true;
    core.event(EventType::communication_established, qp.handle);
  }
  const bool takes = packet.op->known && machines::takes_receive(*packet.op);
  if (decision.reaction == RcReaction::rnr_nak && takes && !receive_queue(core, qp, packet)) {
    // XRC names a shared receive queue that is not in the domain. Annex A14 (number unverified).
    condemn(core, qp, packet, nak_code::invalid_request, Status::remote_invalid_request);
    return;
  }
  react(core, qp, packet, request, decision);
}

}  // namespace rdmawire::device
