/// Requester of reliable connections: segmentation, transmission and completion. IBTA vol 1, 9.4, 9.7, 10.8.3.

#include "conformance/device/roce/requester.hpp"

#include <algorithm>

namespace rdmawire::device {

namespace {

std::size_t answers_outstanding(const Requester& at) {
  return static_cast<std::size_t>(
      std::ranges::count_if(at.queue, [](const SendWork& work) { return work.started && waits_for_answer(work); }));
}

bool is_segmented(Operation operation) { return operation == Operation::send || operation == Operation::rdma_write; }

/// Assign the message's PSNs. Returns an error status if the request cannot be sent.
Status prepare(Core& core, QueuePair& qp, SendWork& work) {
  const RequesterDecisions& decisions = core.decisions.requester;
  const auto wire = wire_operation(work.request.opcode);
  if (!wire) return Status::local_qp_operation;
  if (!decisions.allows_length(work.length)) return Status::local_length;
  const bool answered = machines::keeps_answer(wire->operation);
  if (answered && qp.attributes.max_rd_atomic == 0) return Status::local_qp_operation;
  const bool atomic = machines::is_atomic(wire->operation);
  if ((atomic || wire->operation == Operation::atomic_write) && work.length != 8) return Status::local_length;
  if (!work.request.is_inline) {
    const bool writes_here = atomic || wire->operation == Operation::rdma_read_request;
    const Status status = check_local(core.memory, qp.options.pd, work.request.sges, writes_here);
    if (status != Status::success) return status;
  }
  work.psns = decisions.psns_of(core, qp, wire->operation, static_cast<std::uint32_t>(work.length));
  work.first = qp.requester.window.next;
  ++qp.requester.messages;
  return Status::success;
}

/// True if a request may start now.
bool may_start(const Core& core, const QueuePair& qp, const SendWork& work) {
  const RequesterDecisions& decisions = core.decisions.requester;
  const Requester& at = qp.requester;
  if (decisions.sending(qp) != machines::Sending::everything) return false;
  if (decisions.waits_at_fence(at, work.request)) return false;
  const auto wire = wire_operation(work.request.opcode);
  if (!wire) return true;
  if (machines::keeps_answer(wire->operation) && qp.attributes.max_rd_atomic != 0 &&
      answers_outstanding(at) >= decisions.most_outstanding(qp))
    return false;
  // Limit the number of outstanding PSNs, because PSNs can only be compared within half of the PSN space.
  return decisions.has_credit(at, *wire) && at.window.outstanding() < Psn::half / 2;
}

/// Update the state after `psns` PSNs, starting with `psn`, were sent.
void sent(Core& core, QueuePair& qp, const SendWork& work, Psn psn, std::uint32_t psns) {
  Requester& at = qp.requester;
  if (psn - at.highest_sent < 0)
    ++core.counters.retransmitted;
  else
    at.highest_sent = psn + psns;
  if (psn + psns - at.window.next > 0) at.window = at.window.sent(psn, psns);
  core.decisions.requester.move_cursor(at, work, psns);
  if (at.ack_deadline == never) restart_timer(core, qp);
}

/// Build the packet at the cursor. nullopt: the request failed.
std::optional<OutgoingPacket> build(Core& core, QueuePair& qp) {
  const RequesterDecisions& decisions = core.decisions.requester;
  Requester& at = qp.requester;
  SendWork& work = at.queue[at.at];
  const std::uint32_t index = at.packet;
  const Opcode* op = decisions.opcode(qp, work, index);
  if (!op) {
    fail(core, qp, at.at, Status::local_qp_operation);
    return std::nullopt;
  }
  const bool takes_receive = op->operation == Operation::send || op->immediate;
  OutgoingPacket packet = packet_of(core, qp, op->value, work.first + index);
  decisions.fill(qp, work, index, packet.fields);
  packet.fields.solicited = op->ends_message() && work.request.solicited && takes_receive;
  packet.fields.ack_request = decisions.requests_acknowledgement(qp, *op);
  if (op->payload) {
    if (const Status status = decisions.read_payload(core, qp, work, index, packet.payload);
        status != Status::success) {
      fail(core, qp, at.at, status);
      return std::nullopt;
    }
  }
  const bool read = op->operation == Operation::rdma_read_request;
  if (read) work.asked_from = index;
  sent(core, qp, work, packet.fields.psn, read ? work.psns - index : 1);
  return packet;
}

}  // namespace

std::optional<WireOperation> wire_operation(WorkOpcode opcode) {
  switch (opcode) {
    case WorkOpcode::send: return WireOperation{Operation::send};
    case WorkOpcode::send_imm: return WireOperation{Operation::send, true};
    case WorkOpcode::send_inv: return WireOperation{Operation::send, false, true};
    case WorkOpcode::write: return WireOperation{Operation::rdma_write};
    case WorkOpcode::write_imm: return WireOperation{Operation::rdma_write, true};
    case WorkOpcode::read: return WireOperation{Operation::rdma_read_request};
    case WorkOpcode::compare_swap: return WireOperation{Operation::compare_swap};
    case WorkOpcode::fetch_add: return WireOperation{Operation::fetch_add};
    case WorkOpcode::flush: return WireOperation{Operation::flush};
    case WorkOpcode::atomic_write: return WireOperation{Operation::atomic_write};
    default: return std::nullopt;
  }
}

machines::RcOutstanding outstanding_of(const SendWork& work) {
  return {.first = work.first,
          .psns = work.psns,
          .operation = wire_operation(work.request.opcode)->operation,
          .length = static_cast<std::uint32_t>(work.length),
          .answered = work.answered,
          .asked_from = work.asked_from};
}

bool waits_for_answer(const SendWork& work) {
  return work.psns != 0 && !work.done && outstanding_of(work).needs_answer();
}

Position position_of(std::uint32_t packet, std::uint32_t packets) {
  if (packets == 1) return Position::only;
  return packet == 0 ? Position::first : packet + 1 == packets ? Position::last : Position::middle;
}

bool is_retransmission(const Requester& at, const SendWork& work, std::uint32_t packet) {
  return work.first + packet - at.highest_sent < 0;
}

std::size_t index_of(const Requester& at, Psn psn) {
  for (std::size_t i = 0; i < at.queue.size() && at.queue[i].started; ++i)
    if (at.queue[i].psns != 0 && psn - at.queue[i].first >= 0 && psn - outstanding_of(at.queue[i]).last() <= 0)
      return i;
  return at.queue.size();
}

OutgoingPacket packet_of(const Core& core, const QueuePair& qp, std::uint8_t opcode, Psn psn) {
  OutgoingPacket packet;
  packet.path = qp.attributes.path;
  packet.source_port = qp.source_port;
  packet.ecn = core.options.congestion_control ? 2 : 0;
  packet.fields.opcode = opcode;
  packet.fields.pkey = core.pkey_of(qp);
  packet.fields.dest_qpn = qp.attributes.dest_qpn;
  packet.fields.psn = psn;
  return packet;
}

Status execute_local(Core& core, QueuePair& qp, const SendRequest& request) {
  switch (request.opcode) {
    case WorkOpcode::local_inv: return core.memory.invalidate_local(request.rkey, {qp.options.pd, qp.qpn});
    case WorkOpcode::bind_mw: return core.memory.bind(request, qp.options.pd, qp.qpn);
    case WorkOpcode::reg_mr: return core.memory.fast_register(request, qp.options.pd);
    default: return Status::local_qp_operation;
  }
}

void retire(Core& core, QueuePair& qp) {
  Requester& at = qp.requester;
  while (!at.queue.empty() && at.queue.front().done) {
    const SendWork work = core.decisions.requester.remove_oldest(at);
    const bool here = work.request.opcode == WorkOpcode::read || work.request.opcode == WorkOpcode::compare_swap ||
                      work.request.opcode == WorkOpcode::fetch_add;
    complete_send(core, qp, work.request, Status::success, here ? static_cast<std::uint32_t>(work.length) : 0);
    if (qp.state == QpState::err) return;
  }
  check_drained(core, qp);
}

void fail(Core& core, QueuePair& qp, std::size_t index, Status status) {
  Requester& at = qp.requester;
  const SendRequest failed = at.queue[index].request;
  // Complete the preceding requests: successfully if acknowledged, otherwise flushed.
  for (std::size_t i = 0; i < index; ++i) {
    const SendWork work = std::move(at.queue.front());
    at.queue.pop_front();
    complete_send(core, qp, work.request, work.done ? Status::success : Status::flushed, 0);
    if (qp.state == QpState::err) return;
  }
  at.queue.pop_front();
  at.at -= std::min(at.at, index + 1);
  at.packet = 0;
  core.decisions.requester.complete_failed(core, qp, failed, status);
}

std::optional<OutgoingPacket> next_request(Core& core, QueuePair& qp) {
  Requester& at = qp.requester;
  const RequesterDecisions& decisions = core.decisions.requester;
  if (decisions.sending(qp) == machines::Sending::nothing) return std::nullopt;
  if (core.now < at.rnr_until || core.now < qp.next_send) return std::nullopt;
  while (at.at < at.queue.size()) {
    SendWork& work = at.queue[at.at];
    if (!work.started) {
      if (!decisions.start(core, qp)) return std::nullopt;
      continue;
    }
    if (work.failure != Status::success) {
      // A failed request completes after all preceding requests.
      if (at.at == 0) fail(core, qp, 0, work.failure);
      return std::nullopt;
    }
    if (work.psns == 0 || work.done) {  // a local operation, or complete before go-back-N returned to it
      work.done = true;
      ++at.at;
      at.packet = 0;
      retire(core, qp);
      if (!qp.sends()) return std::nullopt;
      continue;
    }
    at.packet = decisions.next_packet(at, work);
    return build(core, qp);
  }
  return std::nullopt;
}

namespace conforming {

machines::Sending sending(const QueuePair& qp) { return machines::sending(qp.options.type, qp.state); }

bool start_request(Core& core, QueuePair& qp) {
  SendWork& work = qp.requester.queue[qp.requester.at];
  if (!may_start(core, qp, work)) return false;
  work.started = true;
  work.failure = is_local(work.request.opcode) ? execute_local(core, qp, work.request) : prepare(core, qp, work);
  return true;
}

bool allows_length(std::uint64_t bytes) { return bytes <= machines::longest_message; }

std::uint32_t payload_per_packet(const QueuePair& qp) { return qp.attributes.path_mtu; }

std::uint32_t psns_of(const Core& core, const QueuePair& qp, Operation operation, std::uint32_t bytes) {
  if (is_segmented(operation)) return machines::psns_of_read(bytes, core.decisions.requester.payload_per_packet(qp));
  return operation == Operation::rdma_read_request ? machines::psns_of_read(bytes, qp.attributes.path_mtu) : 1;
}

bool has_credit(const Requester& at, const WireOperation& operation) {
  if (!at.credits_known || (operation.operation != Operation::send && !operation.immediate)) return true;
  return Msn(static_cast<std::uint32_t>(at.messages + 1)) - at.limit <= 1;
}

bool waits_at_fence(const Requester& at, const SendRequest& request) {
  if (!request.fence) return false;
  return is_local(request.opcode) ? at.at != 0 : answers_outstanding(at) != 0;
}

std::uint32_t most_outstanding(const QueuePair& qp) { return qp.attributes.max_rd_atomic; }

std::uint32_t next_packet(const Requester& at, const SendWork& work) { return std::max(at.packet, work.answered); }

const Opcode* request_opcode(const QueuePair& qp, const SendWork& work, std::uint32_t packet) {
  const WireOperation wire = *wire_operation(work.request.opcode);
  const Position position = is_segmented(wire.operation) ? position_of(packet, work.psns) : Position::only;
  const bool ends = position == Position::last || position == Position::only;
  return find_opcode(qp.transport(), wire.operation, position, ends && wire.immediate, ends && wire.invalidate);
}

void fill_request(const QueuePair& qp, const SendWork& work, std::uint32_t packet, PacketFields& to) {
  const SendRequest& request = work.request;
  const Operation operation = wire_operation(request.opcode)->operation;
  to.va = request.remote_address;
  to.rkey = request.rkey;
  to.length = operation == Operation::flush ? request.length : static_cast<std::uint32_t>(work.length);
  if (operation == Operation::rdma_read_request) {
    to.va += std::uint64_t{packet} * qp.attributes.path_mtu;
    to.length -= packet * qp.attributes.path_mtu;
  }
  to.swap_add = request.swap_add;
  to.compare = request.compare;
  to.placement = request.placement;
  to.selectivity = request.selectivity;
  to.immediate = request.immediate;
  to.xrc_srq = request.xrc_srq;
}

bool requests_acknowledgement(const QueuePair& qp, const Opcode& op) { return qp.is_reliable() && op.ends_message(); }

Status read_payload(Core& core, const QueuePair& qp, const SendWork& work, std::uint32_t packet,
                    std::vector<std::uint8_t>& to) {
  const std::uint64_t part = core.decisions.requester.payload_per_packet(qp);
  const std::uint64_t from = packet * part;
  return gather(core.memory, qp.options.pd, work.request, from, std::min(part, work.length - from), to);
}

void move_cursor(Requester& at, const SendWork& work, std::uint32_t psns) {
  at.packet += psns;
  if (at.packet < work.psns) return;
  ++at.at;
  at.packet = 0;
}

SendWork remove_oldest(Requester& at) {
  SendWork work = std::move(at.queue.front());
  at.queue.pop_front();
  if (at.at > 0)
    --at.at;
  else
    at.packet = 0;
  return work;
}

void complete_failed(Core& core, QueuePair& qp, const SendRequest& request, Status status) {
  complete_send(core, qp, request, status, 0);
  if (qp.state == QpState::err) return;
  if (machines::after_send_error(qp.options.type) == QpState::err)
    enter_error(core, qp);
  else
    enter_send_error(core, qp);
}

}  // namespace conforming

}  // namespace rdmawire::device
