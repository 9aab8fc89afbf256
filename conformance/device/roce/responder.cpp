/// Responder of reliable connections: execution of requests. IBTA vol 1, 9.7.3 to 9.7.5, 9.9.3.

#include "conformance/device/roce/responder.hpp"

#include <algorithm>

#include "conformance/device/roce/core.hpp"

namespace rdmawire::device {

namespace {

using machines::RcReaction;
using machines::RcRequest;

/// Return the completion of a finished receive.
Completion completion_of(const QueuePair& qp, const Packet& packet, std::uint64_t bytes) {
  Completion completion;
  completion.opcode =
      packet.op->operation == Operation::rdma_write ? CompletionOpcode::receive_write_imm : CompletionOpcode::receive;
  completion.bytes = static_cast<std::uint32_t>(bytes);
  completion.has_immediate = packet.op->immediate;
  completion.has_invalidated = packet.op->invalidate;
  completion.immediate = packet.op->immediate || packet.op->invalidate ? packet.fields.immediate : 0;
  completion.source_qpn = qp.attributes.dest_qpn;
  completion.pkey_index = qp.attributes.pkey_index;
  return completion;
}

/// Remove and return the receive of a rejected request, if any.
std::optional<ReceiveRequest> receive_of(Core& core, QueuePair& qp, const Packet& packet) {
  Responder& at = qp.responder;
  if (!at.receive && packet.op->known && packet.op->begins_message() && machines::takes_receive(*packet.op)) {
    if (const auto queue = receive_queue(core, qp, packet)) {
      at.receive = take_receive(core, qp, *queue);
      at.receive_srq = *queue;
    }
  }
  std::optional<ReceiveRequest> taken = std::move(at.receive);
  at.receive.reset();
  return taken;
}

/// Reject a request permanently: send a NAK and then enter the Error state. 9.9.3.1.3, 10.10.2.2, 10.10.2.3.
void reject_request(Core& core, QueuePair& qp, const Packet& packet, std::uint8_t code, Status status) {
  Responder& at = qp.responder;
  at.rejecting = true;
  const bool takes = packet.op->known && machines::takes_receive(*packet.op);
  if (const auto request = receive_of(core, qp, packet)) {
    if (core.faults[Fault::no_error_completion]) status = Status::flushed;
    complete_receive(core, qp, *request, {.status = status, .opcode = CompletionOpcode::receive}, false);
    while (core.faults[Fault::error_uses_all_receives] && !qp.receives.empty()) {
      const ReceiveRequest further = std::move(qp.receives.front());
      qp.receives.pop_front();
      complete_receive(core, qp, further, {.status = status, .opcode = CompletionOpcode::receive}, false);
    }
  } else {
    const bool is_access = code == nak_code::remote_access_error;
    if (!is_access || !core.faults[Fault::no_event_for_access_error])
      core.event(is_access ? EventType::qp_access_error : EventType::qp_request_error, qp.handle);
  }
  if (qp.state == QpState::err) return;
  if (!takes && core.faults[Fault::no_nak_without_receive]) {
    enter_error(core, qp);
    return;
  }
  Response nak{.psn = packet.fields.psn, .syndrome = Syndrome::nak(code).bits(), .fatal = true};
  if (core.faults[Fault::nak_of_atomic_is_atomic] && packet.op->known && machines::is_atomic(packet.op->operation))
    nak.kind = Response::Kind::atomic;
  answer(core, qp, nak);
}

/// Execute an atomic and return the result: the original value. 9.4.5.
std::uint64_t operate(const Core& core, MutableBytes bytes, const RcRequest& request) {
  const std::uint64_t original = load_le(bytes.data(), 8);
  if (request.op->operation == Operation::fetch_add)
    store_le(bytes.data(), 8, original + request.swap_or_add);
  else if (original == request.compare)
    store_le(bytes.data(), 8, request.swap_or_add);
  return core.faults[Fault::atomic_returns_new_value] ? load_le(bytes.data(), 8) : original;
}

/// Process the part of a SEND or WRITE that uses a receive. False if the request was rejected.
bool deliver(Core& core, QueuePair& qp, const Packet& packet) {
  Responder& at = qp.responder;
  const Opcode& op = *packet.op;
  const bool send = op.operation == Operation::send;
  if (op.begins_message()) at.written = 0;
  if (send ? op.begins_message() : op.immediate) {
    const auto queue = receive_queue(core, qp, packet);
    at.receive = queue ? take_receive(core, qp, *queue) : std::nullopt;
    at.receive_srq = queue.value_or(0);
  }
  if (send) {
    if (!at.receive) return false;
    const SharedReceiveQueue* shared = core.srq(at.receive_srq);
    const std::uint64_t capacity = at.receive->bytes();
    Bytes payload = packet.payload;
    if (core.faults[Fault::truncates_long_sends] && at.written + payload.size() > capacity)
      payload = payload.first(capacity - std::min(capacity, at.written));
    const Status status =
        scatter(core.memory, shared ? shared->pd : qp.options.pd, at.receive->sges, at.written, payload);
    if (status != Status::success) {
      reject_request(core, qp, packet, nak_code::remote_operational_error, status);
      return false;
    }
  }
  at.written += packet.payload.size();
  if (!op.ends_message() || !at.receive) return true;
  if (op.invalidate && !core.memory.invalidate_remote(packet.fields.immediate, {qp.responder.pd, qp.qpn})) {
    reject_request(core, qp, packet, nak_code::remote_operational_error, Status::bind);
    return false;
  }
  const ReceiveRequest request = std::move(*at.receive);
  at.receive.reset();
  const bool empty = !send && core.faults[Fault::write_immediate_without_length];
  Completion completion = completion_of(qp, packet, empty ? 0 : at.written);
  if (qp.options.type == QpType::xrc_target && core.faults[Fault::xrc_loses_source]) completion.source_qpn = 0;
  complete_receive(core, qp, request, completion, packet.fields.solicited && !core.faults[Fault::ignores_solicited]);
  return qp.state != QpState::err;
}

/// Execute the memory access of a WRITE, ATOMIC WRITE or atomic. Returns the result of an atomic.
std::uint64_t change_memory(Core& core, QueuePair& qp, const Packet& packet, const RcRequest& request) {
  const Opcode& op = *packet.op;
  if (machines::is_atomic(op.operation)) {
    const Reached reached = reach(core, qp, request);
    keep_for_reads(core, qp, reached.bytes);
    return reached.bytes.size() == 8 ? operate(core, reached.bytes, request) : 0;
  }
  if ((op.operation != Operation::rdma_write && op.operation != Operation::atomic_write) || request.payload == 0)
    return 0;
  RcRequest part = request;
  if (op.begins_message()) part.length = request.payload;
  const Reached reached = reach(core, qp, part);
  keep_for_reads(core, qp, reached.bytes);
  std::copy_n(packet.payload.begin(), std::min(reached.bytes.size(), packet.payload.size()), reached.bytes.begin());
  return 0;
}

void acknowledge(Core& core, QueuePair& qp, const RcRequest& request) {
  Responder& at = qp.responder;
  if (!request.wants_acknowledge) {
    at.unasked = request.psn;
    at.has_unasked = true;
    return;
  }
  if (core.faults[Fault::never_acknowledges]) return;
  Response response{.psn = request.psn, .syndrome = credits(core, qp), .msn = at.state.msn};
  if (core.faults[Fault::acknowledges_only_asked] && at.has_unasked && at.unasked + 1 == request.psn)
    response.psn = at.unasked;
  answer(core, qp, response);
  if (core.faults[Fault::acknowledges_twice]) answer(core, qp, response);
}

void execute(Core& core, QueuePair& qp, const Packet& packet, const RcRequest& request, bool pretends) {
  Responder& at = qp.responder;
  const Opcode& op = *packet.op;
  const std::uint64_t original = pretends ? 0 : change_memory(core, qp, packet, request);
  if (!pretends && (op.operation == Operation::send || op.operation == Operation::rdma_write))
    if (!deliver(core, qp, packet)) return;
  at.state = machines::executed(at.state, request, qp.responder_settings(), original);
  if (machines::is_atomic(op.operation)) at.operands[at.state.newest] = std::pair(request.swap_or_add, request.compare);
  if (core.faults[Fault::msn_counts_packets] && !op.ends_message()) at.state.msn += 1;
  if (machines::keeps_answer(op.operation))
    answer_kept(core, qp, at.state.answers[at.state.newest], request);
  else
    acknowledge(core, qp, request);
}

/// Acknowledge a duplicate.
void acknowledge_again(Core& core, QueuePair& qp, const RcRequest& request) {
  Responder& at = qp.responder;
  const Psn psn = core.faults[Fault::acknowledges_duplicates_psn] ? request.psn : at.state.acknowledged;
  answer(core, qp, {.psn = psn, .syndrome = credits(core, qp), .msn = at.state.msn});
}

void answer_again(Core& core, QueuePair& qp, const Packet& packet, const RcRequest& request, std::uint8_t slot,
                  bool repeats) {
  machines::RcResponder& at = qp.responder.state;
  machines::RcAnswer& kept = at.answers[slot];
  RcRequest again = request;
  const auto first = qp.responder.operands.find(slot);
  const bool other =
      first != qp.responder.operands.end() && first->second != std::pair(request.swap_or_add, request.compare);
  if (repeats && (!core.faults[Fault::minds_duplicate_operands] || other))
    kept.original = change_memory(core, qp, packet, request);
  if (kept.operation == Operation::rdma_read_request) {
    if (core.faults[Fault::duplicate_read_ends_message]) at.sequence.inside = false;
    if (core.faults[Fault::replays_whole_reads]) {
      again.psn = kept.psn;
      again.va = kept.va;
      again.length = kept.length;
    }
  }
  answer_kept(core, qp, kept, again);
}

void count_duplicate(Core& core, QueuePair& qp) {
  ++core.counters.duplicate_request;
  if (core.faults[Fault::msn_counts_duplicates]) qp.responder.state.msn += 1;
}

void report_gap(Core& core, QueuePair& qp, const RcRequest& request) {
  Responder& at = qp.responder;
  ++core.counters.out_of_sequence;
  ++at.gaps;
  at.state = machines::reported_gap(at.state);
  const Psn psn = core.faults[Fault::nak_has_received_psn] ? request.psn : at.state.window.expected;
  answer(core, qp, {.psn = psn, .syndrome = Syndrome::nak(nak_code::psn_sequence_error).bits(), .msn = at.state.msn});
}

/// Fault: additional reactions to a gap.
void mind_gap(Core& core, QueuePair& qp, const Packet& packet) {
  if (core.faults[Fault::nak_eats_receive] && !qp.receives.empty()) qp.receives.pop_front();
  if (core.faults[Fault::cnp_for_loss]) notify(core, qp, packet);
}

void say_not_ready(Core& core, QueuePair& qp, const RcRequest& request) {
  Responder& at = qp.responder;
  // Following packets are silently dropped until the retry arrives.
  at.state = machines::reported_gap(at.state);
  const unsigned timer = core.faults[Fault::rnr_timer_zero] ? 0U : qp.attributes.min_rnr_timer;
  answer(core, qp, {.psn = request.psn, .syndrome = Syndrome::rnr_nak(timer).bits(), .msn = at.state.msn});
  if (core.faults[Fault::rnr_eats_message]) at.state = machines::executed(at.state, request, qp.responder_settings());
}

void react(Core& core, QueuePair& qp, const Packet& packet, const RcRequest& request, const Decision& decision) {
  switch (decision.rc.reaction) {
    case RcReaction::execute: execute(core, qp, packet, request, false); break;
    case RcReaction::acknowledge_again:
      count_duplicate(core, qp);
      if (decision.repeats && packet.op->begins_message()) change_memory(core, qp, packet, request);
      acknowledge_again(core, qp, request);
      break;
    case RcReaction::answer_again:
      count_duplicate(core, qp);
      answer_again(core, qp, packet, request, decision.rc.answer, decision.repeats);
      break;
    case RcReaction::nak_sequence:
      report_gap(core, qp, request);
      mind_gap(core, qp, packet);
      break;
    case RcReaction::rnr_nak: say_not_ready(core, qp, request); break;
    case RcReaction::nak_invalid:
      reject_request(core, qp, packet, decision.nak,
                     decision.rc.invalid == machines::InvalidRequest::payload && packet.op->operation == Operation::send
                         ? Status::local_length
                         : Status::remote_invalid_request);
      break;
    case RcReaction::nak_access: reject_request(core, qp, packet, decision.nak, Status::remote_access); break;
    case RcReaction::nak_operational: reject_request(core, qp, packet, decision.nak, Status::local_access); break;
    case RcReaction::drop: break;
  }
}

/// Return the protection domain for the request's keys. An XRC target uses the domain of the SRQ that the request
/// specifies. Annex A14 (clause number not verified).
std::uint32_t domain_of(Core& core, const QueuePair& qp, const Packet& packet) {
  if (qp.options.type != QpType::xrc_target) return qp.options.pd;
  const auto queue = receive_queue(core, qp, packet);
  return queue ? core.srq(*queue)->pd : 0;
}

}  // namespace

void receive_request(Core& core, QueuePair& qp, const Packet& packet) {
  if (!qp.takes_requests() || qp.responder.rejecting) return;
  const RcRequest request = request_of(packet);
  qp.responder.pd = domain_of(core, qp, packet);
  const Decision decision = decide(core, qp, packet, request);
  if (decision.rc.reaction == RcReaction::execute && qp.state == QpState::rtr && !qp.established_reported) {
    qp.established_reported = true;
    core.event(EventType::communication_established, qp.handle);
  }
  if (decision.pretends) {
    execute(core, qp, packet, request, true);
    return;
  }
  const bool takes = packet.op->known && machines::takes_receive(*packet.op);
  if (decision.rc.reaction == RcReaction::rnr_nak && takes && !receive_queue(core, qp, packet)) {
    // The SRQ of the XRC request is in another domain. Annex A14 (clause number not verified).
    reject_request(core, qp, packet, nak_code::invalid_request, Status::remote_invalid_request);
    return;
  }
  react(core, qp, packet, request, decision);
}

}  // namespace rdmawire::device
