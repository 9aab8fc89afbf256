/// Decisions of the responder of a reliable connection about requests.

#include "conformance/device/roce/responder.hpp"

namespace rdmawire::device {

namespace {

using machines::InvalidRequest;
using machines::RcReaction;
using machines::RcRequest;

machines::RcKnowledge knowledge_of(Core& core, QueuePair& qp, const Packet& packet, const RcRequest& request) {
  machines::RcKnowledge known;
  const Opcode& op = *packet.op;
  if (machines::asks_receive(qp.responder.state, op)) {
    if (op.operation == Operation::send && !op.begins_message()) {
      known.receive_bytes = qp.responder.receive ? qp.responder.receive->bytes() : 0;
    } else {
      const auto queue = receive_queue(core, qp, packet);
      const ReceiveRequest* next = queue ? next_receive(core, qp, *queue) : nullptr;
      known.receive = next != nullptr;
      if (next) known.receive_bytes = next->bytes();
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

bool access_allows(Core& core, QueuePair& qp, const RcRequest& request) {
  const bool may = (qp.attributes.access & access::remote_write) != 0;
  const Reached reached = reach(core, qp, request);
  return may && reached.granted && reached.exists;
}

std::uint8_t nak_of(RcReaction reaction) {
  if (reaction == RcReaction::nak_access) return nak_code::remote_access_error;
  return reaction == RcReaction::nak_operational ? nak_code::remote_operational_error : nak_code::invalid_request;
}

}  // namespace

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

std::optional<std::uint32_t> receive_queue(Core& core, const QueuePair& qp, const Packet& packet) {
  if (qp.options.type != QpType::xrc_target) return qp.options.srq;
  for (const auto& [handle, srq] : core.srqs) {
    if (srq.number == packet.fields.xrc_srq && srq.xrcd != 0 && core.decisions.responder.may_use(qp, srq))
      return handle;
  }
  return std::nullopt;
}

Reached reach(Core& core, QueuePair& qp, const RcRequest& request) {
  const Opcode& op = *request.op;
  const Accessor who{qp.responder.pd, qp.qpn};
  const std::uint32_t rights = core.decisions.responder.rights_for(request);
  std::uint64_t va = request.va, bytes = request.length;
  std::uint32_t rkey = request.rkey;
  if (machines::is_atomic(op.operation)) bytes = 8;
  if (op.operation == Operation::rdma_write && !op.begins_message()) {
    va = qp.responder.state.va;
    rkey = qp.responder.state.rkey;
    bytes = request.payload;
  }
  if (!core.decisions.responder.checks_range(request)) {
    const bool granted = core.memory.remote(who, rkey, va, bytes, rights, true).has_value();
    return {granted, granted, {}};
  }
  const auto host = core.memory.remote(who, rkey, va, bytes, rights);
  if (!host) return {};
  const MutableBytes found = core.memory.at(*host, bytes);
  return {true, bytes == 0 || !found.empty(), found};
}

namespace conforming {

machines::RcResponderSettings responder_settings(const QueuePair& qp) { return qp.responder_settings(); }

Decision judge(Core& core, QueuePair& qp, const Packet& packet, const RcRequest& request) {
  const machines::RcResponder& at = qp.responder.state;
  Decision decision;
  decision.rc = machines::judge(at, request, core.decisions.responder.settings(qp),
                                [&](const RcRequest& asked) { return knowledge_of(core, qp, packet, asked); });
  // If the WRITE has all bytes of its DMA length before its last packet, the error is detected only at the last packet.
  const std::uint64_t before = request.op->begins_message() ? 0 : at.done;
  const std::uint64_t whole = request.op->begins_message() ? request.length : at.length;
  if (decision.rc.reaction == RcReaction::nak_invalid && decision.rc.invalid == InvalidRequest::message_length &&
      !request.op->ends_message() && before + request.payload == whole)
    decision.rc.reaction = access_allows(core, qp, request) ? RcReaction::execute : RcReaction::nak_access;
  decision.nak = nak_of(decision.rc.reaction);
  return decision;
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

bool checks_range(const RcRequest& request) {
  return request.op->operation != Operation::flush || request.selectivity != 1;
}

bool may_use(const QueuePair& qp, const SharedReceiveQueue& srq) { return srq.xrcd == qp.options.xrcd; }

}  // namespace conforming

}  // namespace rdmawire::device
