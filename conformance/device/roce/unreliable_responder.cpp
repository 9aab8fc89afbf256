/// Responder of unreliable connections. IBTA vol 1, 9.8.2.

#include <algorithm>

#include "conformance/device/roce/core.hpp"
#include "dissectors/machines/uc.hpp"

namespace rdmawire::device {

namespace {

machines::RcRequest unreliable_request_of(const Packet& packet) {
  const PacketFields& from = packet.fields;
  return {.op = packet.op,
          .psn = from.psn,
          .payload = static_cast<std::uint32_t>(packet.payload.size()),
          .va = from.va,
          .rkey = from.rkey,
          .length = from.length};
}

/// Return the memory for the payload of a WRITE packet. nullopt: no access. `whole`: if it is the first packet, return
/// the range of the complete message.
std::optional<MutableBytes> reach(Core& core, QueuePair& qp, const machines::RcRequest& request, bool whole) {
  const machines::UcResponder& at = qp.responder.uc;
  if ((qp.attributes.access & access::remote_write) == 0) return std::nullopt;
  const bool begins = request.op->begins_message();
  const std::uint64_t va = begins ? request.va : at.va;
  const std::uint64_t bytes = begins && whole ? request.length : request.payload;
  const auto host =
      core.memory.remote({qp.options.pd, qp.qpn}, begins ? request.rkey : at.rkey, va, bytes, access::remote_write);
  if (!host) return std::nullopt;
  const MutableBytes found = core.memory.at(*host, bytes);
  if (bytes != 0 && found.empty()) return std::nullopt;
  return found;
}

machines::RcKnowledge knowledge_of(Core& core, QueuePair& qp, const machines::RcRequest& request, bool reuses) {
  machines::RcKnowledge known;
  const Opcode& op = *request.op;
  const Responder& at = qp.responder;
  const bool own = at.receive && (op.operation == Operation::send && (!op.begins_message() || reuses));
  const ReceiveRequest* next = own ? &*at.receive : next_receive(core, qp, qp.options.srq);
  known.receive = next != nullptr;
  known.receive_bytes = next ? next->bytes() : 0;
  if (machines::asks_access(request) && !reach(core, qp, request, true)) known.access = machines::Access::refused;
  // Check the access rights of the QP even for a WRITE of 0 bytes, whose key is not checked.
  if (op.operation == Operation::rdma_write && (qp.attributes.access & access::remote_write) == 0)
    known.access = machines::Access::refused;
  return known;
}

/// Abandon the message in progress. A receive of the queue pair's own queue is used for the next message (class D1). A
/// receive of an SRQ completes in error (class E).
void abandon(Core& core, QueuePair& qp, Status status = Status::remote_operation) {
  Responder& at = qp.responder;
  if (!at.receive || at.receive_srq == 0) return;
  const ReceiveRequest lost = std::move(*at.receive);
  at.receive.reset();
  complete_receive(core, qp, lost, {.status = status, .opcode = CompletionOpcode::receive}, false);
}

/// Abandon a message that is too long. A receive of an SRQ completes in error.
void spoil(Core& core, QueuePair& qp) {
  Responder& at = qp.responder;
  if (qp.options.srq == 0) return;
  if (!at.receive) at.receive = take_receive(core, qp, qp.options.srq);
  at.receive_srq = qp.options.srq;
  abandon(core, qp, Status::local_length);
}

void deliver_unreliable(Core& core, QueuePair& qp, const Packet& packet) {
  Responder& at = qp.responder;
  const Opcode& op = *packet.op;
  const bool send = op.operation == Operation::send;
  if ((send ? core.decisions.unreliable.takes_next_receive(op) : op.immediate) && !at.receive) {
    at.receive = take_receive(core, qp, qp.options.srq);
    at.receive_srq = qp.options.srq;
  }
  if (op.begins_message()) at.written = 0;
  if (send && at.receive) {
    const SharedReceiveQueue* shared = core.srq(at.receive_srq);
    const std::uint32_t pd = shared ? shared->pd : qp.options.pd;
    const std::uint64_t capacity = at.receive->bytes() - std::min(at.receive->bytes(), at.written);
    const Bytes payload = packet.payload.first(std::min<std::uint64_t>(capacity, packet.payload.size()));
    if (const Status status = scatter(core.memory, pd, at.receive->sges, at.written, payload);
        status != Status::success) {
      const ReceiveRequest failed = std::move(*at.receive);
      at.receive.reset();
      complete_receive(core, qp, failed, {.status = status, .opcode = CompletionOpcode::receive}, false);
      enter_error(core, qp);
      return;
    }
  }
  at.written += packet.payload.size();
  if (!op.ends_message() || !machines::takes_receive(op) || !at.receive) return;
  const ReceiveRequest request = std::move(*at.receive);
  at.receive.reset();
  Completion completion;
  completion.opcode = send ? CompletionOpcode::receive : CompletionOpcode::receive_write_imm;
  completion.bytes = static_cast<std::uint32_t>(at.written);
  completion.has_immediate = op.immediate;
  completion.immediate = op.immediate ? packet.fields.immediate : 0;
  completion.source_qpn = qp.attributes.dest_qpn;
  completion.pkey_index = qp.attributes.pkey_index;
  complete_receive(core, qp, request, completion, packet.fields.solicited);
}

}  // namespace

void receive_unreliable(Core& core, QueuePair& qp, const Packet& packet) {
  Responder& at = qp.responder;
  const machines::RcRequest request = unreliable_request_of(packet);
  const machines::UcDecision decision = core.decisions.unreliable.judge(core, qp, request);
  const bool begins = packet.op->known && packet.op->begins_message();
  if (decision.abandons && (begins || !decision.too_long)) abandon(core, qp);
  if (decision.too_long && decision.reaction == machines::UcReaction::drop) spoil(core, qp);
  if (decision.reaction == machines::UcReaction::drop) {
    if (packet.op->known && machines::takes_receive(*packet.op)) ++core.counters.no_receive;
    at.uc = core.decisions.unreliable.after_drop(at.uc, request);
    return;
  }
  core.decisions.unreliable.execute(core, qp, packet, request);
}

namespace conforming {

machines::UcDecision judge_unreliable(Core& core, QueuePair& qp, const machines::RcRequest& request) {
  const bool reuses = qp.responder.receive_srq == 0;
  return machines::judge(qp.responder.uc, request, qp.attributes.path_mtu,
                         [&](const machines::RcRequest& asked) { return knowledge_of(core, qp, asked, reuses); });
}

bool takes_next_receive(const Opcode& op) { return op.begins_message(); }

machines::UcResponder after_drop(const machines::UcResponder& at, const machines::RcRequest& request) {
  return machines::dropped(at, request);
}

void execute_unreliable(Core& core, QueuePair& qp, const Packet& packet, const machines::RcRequest& request) {
  if (request.op->operation == Operation::rdma_write && request.payload != 0) {
    const auto to = reach(core, qp, request, false);
    if (to) std::copy_n(packet.payload.begin(), std::min(to->size(), packet.payload.size()), to->begin());
  }
  deliver_unreliable(core, qp, packet);
  qp.responder.uc = machines::executed(qp.responder.uc, request);
}

}  // namespace conforming

}  // namespace rdmawire::device
