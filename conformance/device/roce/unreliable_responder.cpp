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

/// Return the destination of a WRITE packet's payload. `whole`: for a first packet, the range of the complete message.
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
  // The access rights of the QP are checked before the key, and also for a WRITE of 0 bytes.
  if (op.operation == Operation::rdma_write && (qp.attributes.access & access::remote_write) == 0)
    known.access = machines::Access::refused;
  return known;
}

/// Abandon the message in progress. Class D1, own receive queue: the next message reuses the receive. Class E, SRQ: the
/// receive completes in error.
void abandon(Core& core, QueuePair& qp, Status status = Status::remote_operation) {
  Responder& at = qp.responder;
  if (!at.receive || at.receive_srq == 0) return;
  const ReceiveRequest lost = std::move(*at.receive);
  at.receive.reset();
  complete_receive(core, qp, lost, {.status = status, .opcode = CompletionOpcode::receive}, false);
}

/// Abandon a message that is too long. The receive of an SRQ completes in error.
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
  const bool begins = op.begins_message() || core.faults[Fault::takes_uc_middle_first];
  if ((send ? begins : op.immediate) && !at.receive) {
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

namespace {

/// Fault: send a response, which UC does not have.
void answer_wrongly(Core& core, QueuePair& qp, Psn psn, std::uint8_t syndrome) {
  constexpr std::uint8_t acknowledge = 0x11;
  OutgoingPacket answer = packet_of(core, qp, acknowledge, psn);
  answer.fields.syndrome = syndrome;
  if (core.control.size() < Core::most_control) core.control.push_back(std::move(answer));
}

/// True if the PSN and the headers are valid.
bool is_in_order(const machines::UcResponder& at, const machines::RcRequest& request, std::uint32_t mtu) {
  return at.window.accepts(request.psn, request.op->known && request.op->begins_message()) &&
         machines::well_formed(at, request, mtu);
}

/// Fault: change the decision about a packet.
void mistake(Core& core, QueuePair& qp, const machines::RcRequest& request, machines::UcDecision& decision) {
  const machines::UcResponder& at = qp.responder.uc;
  const Opcode& op = *request.op;
  const bool begins = op.known && op.begins_message(), inside = at.sequence.inside;
  const bool dropped = decision.reaction == machines::UcReaction::drop;
  const bool in_order = is_in_order(at, request, qp.attributes.path_mtu);
  const bool takes = op.known && machines::takes_receive(op);
  const auto take = [&] { decision = {machines::UcReaction::execute, false}; };
  if (!begins && inside && request.psn != at.window.expected && core.faults[Fault::delivers_with_gap]) take();
  if (begins && !inside && request.psn != at.window.expected && core.faults[Fault::waits_for_lost_uc])
    decision = {machines::UcReaction::drop, false};
  if (!begins && !inside && op.known && op.operation == Operation::send && core.faults[Fault::takes_uc_middle_first])
    take();
  if (begins && inside && core.faults[Fault::drops_uc_restart]) decision = {machines::UcReaction::drop, false};
  if (core.faults[Fault::keeps_shared_receive]) decision.abandons = decision.too_long = false;
  const bool no_receive = takes && !qp.responder.receive && !next_receive(core, qp, qp.options.srq);
  if (dropped && no_receive && in_order && core.faults[Fault::uc_sends_rnr])
    answer_wrongly(core, qp, request.psn, 0x20);
  if (dropped && in_order && op.operation == Operation::rdma_write && core.faults[Fault::uc_naks_access])
    answer_wrongly(core, qp, request.psn, 0x62);
  if (dropped && in_order && op.operation == Operation::send && !no_receive && core.faults[Fault::uc_delivers_long])
    take();
  if (!dropped && op.operation == Operation::rdma_write && begins && request.length == 0 &&
      core.faults[Fault::uc_checks_empty_access] && !core.memory.knows(request.rkey))
    decision.reaction = machines::UcReaction::drop;
  if ((!op.known || op.operation == Operation::rdma_read_request) && core.faults[Fault::uc_naks_reads])
    answer_wrongly(core, qp, request.psn, 0x61);
}

}  // namespace

void receive_unreliable(Core& core, QueuePair& qp, const Packet& packet) {
  Responder& at = qp.responder;
  const machines::RcRequest request = unreliable_request_of(packet);
  const bool reuses = at.receive_srq == 0;
  machines::UcDecision decision =
      machines::judge(at.uc, request, qp.attributes.path_mtu,
                      [&](const machines::RcRequest& asked) { return knowledge_of(core, qp, asked, reuses); });
  if (core.faults.any()) mistake(core, qp, request, decision);
  const bool begins = packet.op->known && packet.op->begins_message();
  if (decision.abandons && (begins || !decision.too_long)) abandon(core, qp);
  if (decision.too_long && decision.reaction == machines::UcReaction::drop) spoil(core, qp);
  if (decision.reaction == machines::UcReaction::drop) {
    if (packet.op->known && machines::takes_receive(*packet.op)) ++core.counters.no_receive;
    if (!core.faults[Fault::waits_for_lost_uc]) at.uc = machines::dropped(at.uc, request);
    return;
  }
  if (request.op->operation == Operation::rdma_write && request.payload != 0) {
    const auto to = reach(core, qp, request, false);
    if (to) std::copy_n(packet.payload.begin(), std::min(to->size(), packet.payload.size()), to->begin());
  }
  deliver_unreliable(core, qp, packet);
  at.uc = machines::executed(at.uc, request);
  if (core.faults[Fault::acknowledges_uc] && packet.op->ends_message()) answer_wrongly(core, qp, request.psn, 0x1f);
}

}  // namespace rdmawire::device
