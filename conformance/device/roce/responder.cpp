/// Responder of reliable connections: execution of requests. IBTA vol 1, 9.7.3 to 9.7.5, 9.9.3.

#include "conformance/device/roce/responder.hpp"

#include <algorithm>

#include "conformance/device/roce/core.hpp"

namespace rdmawire::device {

namespace {

using machines::RcReaction;
using machines::RcRequest;

/// Remove and return the receive that a rejected request uses, if any.
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
  const ResponderDecisions& decisions = core.decisions.responder;
  qp.responder.rejecting = true;
  if (const auto request = receive_of(core, qp, packet))
    decisions.complete_rejected(core, qp, *request, status);
  else
    decisions.raise_rejection(core, qp, code);
  if (qp.state != QpState::err) decisions.send_rejection(core, qp, packet, code);
}

/// Process the part of a SEND or WRITE that uses a receive. Returns false if the request was rejected.
bool deliver(Core& core, QueuePair& qp, const Packet& packet) {
  const ResponderDecisions& decisions = core.decisions.responder;
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
    const Status status = scatter(core.memory, shared ? shared->pd : qp.options.pd, at.receive->sges, at.written,
                                  decisions.placed_payload(at, packet.payload));
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
  complete_receive(core, qp, request, decisions.receive_completion(qp, packet, at.written),
                   decisions.is_solicited(packet));
  return qp.state != QpState::err;
}

void execute(Core& core, QueuePair& qp, const Packet& packet, const RcRequest& request) {
  const Operation operation = packet.op->operation;
  const std::uint64_t original = change_memory(core, qp, packet, request);
  if (operation == Operation::send || operation == Operation::rdma_write)
    if (!deliver(core, qp, packet)) return;
  conclude(core, qp, request, original);
}

/// Acknowledge a duplicate.
void acknowledge_again(Core& core, QueuePair& qp, const Packet& packet, const RcRequest& request) {
  const ResponderDecisions& decisions = core.decisions.responder;
  ++core.counters.duplicate_request;
  decisions.apply_duplicate(core, qp, packet, request, nullptr);
  answer(core, qp,
         {.psn = decisions.duplicate_psn(qp.responder, request),
          .syndrome = decisions.credits(core, qp),
          .msn = qp.responder.state.msn});
}

/// Retransmit the stored response of a duplicate.
void answer_again(Core& core, QueuePair& qp, const Packet& packet, const RcRequest& request, std::uint8_t slot) {
  const ResponderDecisions& decisions = core.decisions.responder;
  machines::RcAnswer& kept = qp.responder.state.answers[slot];
  ++core.counters.duplicate_request;
  decisions.apply_duplicate(core, qp, packet, request, &kept);
  answer_kept(core, qp, kept, decisions.replayed_part(request, kept));
}

/// Return the protection domain for the request's keys. An XRC target uses the domain of the SRQ that the request
/// specifies. Annex A14 (clause number not verified).
std::uint32_t domain_of(Core& core, const QueuePair& qp, const Packet& packet) {
  if (qp.options.type != QpType::xrc_target) return qp.options.pd;
  const auto queue = receive_queue(core, qp, packet);
  return queue ? core.srq(*queue)->pd : 0;
}

}  // namespace

std::uint64_t change_memory(Core& core, QueuePair& qp, const Packet& packet, const RcRequest& request) {
  const Opcode& op = *packet.op;
  if (machines::is_atomic(op.operation)) {
    const Reached reached = reach(core, qp, request);
    keep_for_reads(core, qp, reached.bytes);
    return reached.bytes.size() == 8 ? core.decisions.responder.operate(reached.bytes, request) : 0;
  }
  if ((op.operation != Operation::rdma_write && op.operation != Operation::atomic_write) || request.payload == 0)
    return 0;
  RcRequest part = request;
  if (op.begins_message()) part.length = request.payload;
  const Reached reached = reach(core, qp, part);
  keep_for_reads(core, qp, reached.bytes);
  const std::uint64_t va = op.begins_message() ? request.va : qp.responder.state.va;
  core.decisions.responder.place_write(reached.bytes, packet.payload, request, va);
  return 0;
}

void conclude(Core& core, QueuePair& qp, const RcRequest& request, std::uint64_t original) {
  const machines::RcResponder& at = qp.responder.state;
  core.decisions.responder.advance(qp, request, original);
  if (machines::keeps_answer(request.op->operation))
    answer_kept(core, qp, at.answers[at.newest], request);
  else
    core.decisions.responder.acknowledge(core, qp, request);
}

void receive_request(Core& core, QueuePair& qp, const Packet& packet) {
  if (!qp.takes_requests() || qp.responder.rejecting) return;
  const RcRequest request = request_of(packet);
  qp.responder.pd = domain_of(core, qp, packet);
  const Decision decision = core.decisions.responder.judge(core, qp, packet, request);
  if (decision.rc.reaction == RcReaction::execute && qp.state == QpState::rtr && !qp.established_reported) {
    qp.established_reported = true;
    core.event(EventType::communication_established, qp.handle);
  }
  const bool takes = packet.op->known && machines::takes_receive(*packet.op);
  if (decision.rc.reaction == RcReaction::rnr_nak && takes && !receive_queue(core, qp, packet)) {
    // Reject the request instead if the XRC domain has no SRQ with its number. Annex A14 (clause number not verified).
    reject_request(core, qp, packet, nak_code::invalid_request, Status::remote_invalid_request);
    return;
  }
  core.decisions.responder.react(core, qp, packet, request, decision);
}

namespace conforming {

void react(Core& core, QueuePair& qp, const Packet& packet, const RcRequest& request, const Decision& decision) {
  const ResponderDecisions& decisions = core.decisions.responder;
  switch (decision.rc.reaction) {
    case RcReaction::execute: execute(core, qp, packet, request); break;
    case RcReaction::acknowledge_again: acknowledge_again(core, qp, packet, request); break;
    case RcReaction::answer_again: answer_again(core, qp, packet, request, decision.rc.answer); break;
    case RcReaction::nak_sequence: decisions.report_gap(core, qp, packet, request); break;
    case RcReaction::rnr_nak: decisions.report_not_ready(core, qp, request); break;
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

std::uint64_t operate(MutableBytes bytes, const RcRequest& request) {
  const std::uint64_t original = load_le(bytes.data(), 8);
  if (request.op->operation == Operation::fetch_add)
    store_le(bytes.data(), 8, original + request.swap_or_add);
  else if (original == request.compare)
    store_le(bytes.data(), 8, request.swap_or_add);
  return original;
}

void place_write(MutableBytes to, Bytes payload, const RcRequest& /*request*/, std::uint64_t /*va*/) {
  std::copy_n(payload.begin(), std::min(to.size(), payload.size()), to.begin());
}

Bytes placed_payload(const Responder& /*at*/, Bytes payload) { return payload; }

Completion receive_completion(const QueuePair& qp, const Packet& packet, std::uint64_t bytes) {
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

bool is_solicited(const Packet& packet) { return packet.fields.solicited; }

void advance(QueuePair& qp, const RcRequest& request, std::uint64_t original) {
  machines::RcResponder& at = qp.responder.state;
  at = machines::executed(at, request, qp.responder_settings(), original);
}

void acknowledge(Core& core, QueuePair& qp, const RcRequest& request) {
  if (!request.wants_acknowledge) return;
  const ResponderDecisions& decisions = core.decisions.responder;
  decisions.send_acknowledgement(
      core, qp, {.psn = request.psn, .syndrome = decisions.credits(core, qp), .msn = qp.responder.state.msn});
}

void send_acknowledgement(Core& core, QueuePair& qp, Response response) { answer(core, qp, std::move(response)); }

void apply_duplicate(Core& /*core*/, QueuePair& /*qp*/, const Packet& /*packet*/, const RcRequest& /*request*/,
                     machines::RcAnswer* /*kept*/) {}

RcRequest replayed_part(const RcRequest& request, const machines::RcAnswer& /*kept*/) { return request; }

Psn duplicate_psn(const Responder& at, const RcRequest& /*request*/) { return at.state.acknowledged; }

void report_gap(Core& core, QueuePair& qp, const Packet& /*packet*/, const RcRequest& request) {
  Responder& at = qp.responder;
  ++core.counters.out_of_sequence;
  at.state = machines::reported_gap(at.state);
  answer(core, qp,
         {.psn = core.decisions.responder.gap_psn(at, request),
          .syndrome = Syndrome::nak(nak_code::psn_sequence_error).bits(),
          .msn = at.state.msn});
}

Psn gap_psn(const Responder& at, const RcRequest& /*request*/) { return at.state.window.expected; }

void report_not_ready(Core& core, QueuePair& qp, const RcRequest& request) {
  Responder& at = qp.responder;
  at.state = machines::reported_gap(at.state);
  answer(core, qp,
         {.psn = request.psn,
          .syndrome = Syndrome::rnr_nak(core.decisions.responder.rnr_timer(qp)).bits(),
          .msn = at.state.msn});
}

unsigned rnr_timer(const QueuePair& qp) { return qp.attributes.min_rnr_timer; }

void complete_rejected(Core& core, QueuePair& qp, const ReceiveRequest& request, Status status) {
  complete_receive(core, qp, request, {.status = status, .opcode = CompletionOpcode::receive}, false);
}

void raise_rejection(Core& core, const QueuePair& qp, std::uint8_t code) {
  core.event(code == nak_code::remote_access_error ? EventType::qp_access_error : EventType::qp_request_error,
             qp.handle);
}

void send_rejection(Core& core, QueuePair& qp, const Packet& packet, std::uint8_t code) {
  answer(core, qp, core.decisions.responder.rejection(packet, code));
}

Response rejection(const Packet& packet, std::uint8_t code) {
  return {.psn = packet.fields.psn, .syndrome = Syndrome::nak(code).bits(), .fatal = true};
}

}  // namespace conforming

}  // namespace rdmawire::device
