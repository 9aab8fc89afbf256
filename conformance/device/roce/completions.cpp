#include "conformance/device/roce/core.hpp"

namespace rdmawire::device {

namespace {

CompletionOpcode opcode_of(WorkOpcode opcode) {
  switch (opcode) {
    case WorkOpcode::write:
    case WorkOpcode::write_imm: return CompletionOpcode::write;
    case WorkOpcode::read: return CompletionOpcode::read;
    case WorkOpcode::compare_swap: return CompletionOpcode::compare_swap;
    case WorkOpcode::fetch_add: return CompletionOpcode::fetch_add;
    case WorkOpcode::local_inv: return CompletionOpcode::local_inv;
    case WorkOpcode::bind_mw: return CompletionOpcode::bind_mw;
    case WorkOpcode::reg_mr: return CompletionOpcode::reg_mr;
    case WorkOpcode::flush: return CompletionOpcode::flush;
    case WorkOpcode::atomic_write: return CompletionOpcode::atomic_write;
    default: return CompletionOpcode::send;
  }
}

}  // namespace

void complete(Core& core, std::uint32_t cq, const Completion& completion, bool solicited) {
  const auto found = core.cqs.find(cq);
  if (found == core.cqs.end() || found->second.overflowed) return;
  CompletionQueue& queue = found->second;
  if (queue.entries.size() >= queue.capacity) {
    core.decisions.completions.overflow(core, queue);
    return;
  }
  queue.entries.push_back(completion);
  if (!core.decisions.completions.notifies(queue, completion, solicited)) return;
  queue.armed = Notify::nothing;
  const auto channel = core.channels.find(queue.channel);
  if (channel != core.channels.end()) channel->second.notified.push_back(queue.handle);
}

void complete_send(Core& core, QueuePair& qp, const SendRequest& request, Status status, std::uint32_t bytes) {
  if (!core.decisions.completions.reports(qp, request, status)) return;
  complete(core, qp.options.send_cq,
           {.id = request.id, .status = status, .opcode = opcode_of(request.opcode), .bytes = bytes, .qpn = qp.qpn},
           false);
}

void complete_receive(Core& core, QueuePair& qp, const ReceiveRequest& request, Completion completion, bool solicited) {
  completion.id = request.id;
  completion.qpn = qp.qpn;
  std::uint32_t cq = qp.options.recv_cq;
  // An XRC target uses the completion queue of the SRQ. Annex A14 (clause number not verified).
  if (qp.options.type == QpType::xrc_target) {
    const SharedReceiveQueue* shared = core.srq(qp.responder.receive_srq);
    if (!shared) return;
    cq = shared->cq;
  }
  complete(core, cq, completion, solicited);
}

namespace conforming {

void overflow(Core& core, CompletionQueue& queue) {
  queue.overflowed = true;
  core.event(EventType::cq_error, queue.handle);
  for (auto& [qpn, qp] : core.qps) {
    const bool uses = qp.options.send_cq == queue.handle || qp.options.recv_cq == queue.handle;
    if (!uses || qp.state == QpState::reset || qp.state == QpState::err) continue;
    core.event(EventType::qp_fatal, qp.handle);
    enter_error(core, qp);
  }
}

bool notifies(const CompletionQueue& queue, const Completion& completion, bool solicited) {
  return queue.armed == Notify::next ||
         (queue.armed == Notify::solicited && (solicited || completion.status != Status::success));
}

bool reports(const QueuePair& qp, const SendRequest& request, Status status) {
  return status != Status::success || request.signaled || qp.options.all_signaled;
}

}  // namespace conforming

}  // namespace rdmawire::device
