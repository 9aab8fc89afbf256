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

/// Return the payload bytes per packet of a segmented message.
std::uint32_t chunk_of(const Core& core, const QueuePair& qp) {
  return core.faults[Fault::half_filled_packets] ? qp.attributes.path_mtu / 2 : qp.attributes.path_mtu;
}

/// Assign the message's PSNs. Returns an error status if the request cannot be sent.
Status prepare(Core& core, QueuePair& qp, SendWork& work) {
  const auto words = wire_operation(work.request.opcode);
  if (!words) return Status::local_qp_operation;
  if (work.length > machines::longest_message && !core.faults[Fault::sends_giant_messages]) return Status::local_length;
  const bool answered = machines::keeps_answer(words->operation);
  if (answered && qp.attributes.max_rd_atomic == 0) return Status::local_qp_operation;
  const bool reads = words->operation == Operation::rdma_read_request;
  const bool eight = machines::is_atomic(words->operation) || words->operation == Operation::atomic_write;
  if (eight && work.length != 8) return Status::local_length;
  if (!work.request.is_inline) {
    const bool writes_here = reads || machines::is_atomic(words->operation);
    const Status status = check_local(core.memory, qp.options.pd, work.request.sges, writes_here);
    if (status != Status::success) return status;
  }
  const auto bytes = static_cast<std::uint32_t>(work.length);
  work.psns = 1;
  if (is_segmented(words->operation)) work.psns = machines::psns_of_read(bytes, chunk_of(core, qp));
  if (reads && !core.faults[Fault::read_takes_one_psn])
    work.psns = machines::psns_of_read(bytes, qp.attributes.path_mtu);
  work.first = qp.requester.window.next;
  ++qp.requester.messages;
  return Status::success;
}

/// 9.7.7.2: without credits, the requester may send one message that needs a receive.
bool has_credit(const Core& core, const Requester& at, const WireOperation& words) {
  if (!at.credits_known || core.faults[Fault::ignores_credits]) return true;
  if (words.operation != Operation::send && !words.immediate) return true;
  return Msn(static_cast<std::uint32_t>(at.messages + 1)) - at.limit <= 1;
}

/// True if a request that has not started may start.
bool may_begin(const Core& core, const QueuePair& qp, const SendWork& work) {
  const Requester& at = qp.requester;
  const bool drains = machines::sending(qp.options.type, qp.state) != machines::Sending::everything;
  const bool zombie = qp.state == QpState::err && core.faults[Fault::sends_after_error];
  if (drains && !zombie && !core.faults[Fault::sends_while_drained]) return false;
  const bool local = is_local(work.request.opcode);
  if (work.request.fence && !local && answers_outstanding(at) != 0 && !core.faults[Fault::ignores_fence])
    return false;  // 10.8.3.3
  // 10.6.5.1: a fenced local invalidation waits for all preceding requests.
  if (work.request.fence && local && at.at != 0 && !core.faults[Fault::ignores_local_fence]) return false;
  const auto words = wire_operation(work.request.opcode);
  if (!words) return true;
  const std::uint32_t most = qp.attributes.max_rd_atomic + (core.faults[Fault::one_read_too_many] ? 1 : 0);
  if (machines::keeps_answer(words->operation) && qp.attributes.max_rd_atomic != 0 && answers_outstanding(at) >= most)
    return false;
  // Keep the outstanding PSNs far below half of the PSN space.
  return has_credit(core, at, *words) && at.window.outstanding() < Psn::half / 2;
}

Position position_of(std::uint32_t packet, std::uint32_t packets) {
  if (packets == 1) return Position::only;
  return packet == 0 ? Position::first : packet + 1 == packets ? Position::last : Position::middle;
}

/// Fill the fields of packet number `index` from the request.
void describe(const Core& core, const QueuePair& qp, const SendWork& work, const WireOperation& words,
              std::uint32_t index, PacketFields& to) {
  const SendRequest& request = work.request;
  to.va = request.remote_address;
  to.rkey = request.rkey;
  to.length = words.operation == Operation::flush ? request.length : static_cast<std::uint32_t>(work.length);
  if (words.operation == Operation::rdma_read_request) {
    to.va += std::uint64_t{index} * qp.attributes.path_mtu;
    to.length -= index * qp.attributes.path_mtu;
  }
  to.swap_add = request.swap_add;
  to.compare = request.compare;
  to.placement = request.placement;
  to.selectivity = request.selectivity;
  to.immediate = request.immediate;
  to.xrc_srq = core.faults[Fault::xrceth_without_number] ? 0 : request.xrc_srq;
}

/// Move the cursor after the sent PSNs.
void advance(Core& core, QueuePair& qp, SendWork& work, Psn psn, std::uint32_t taken) {
  Requester& at = qp.requester;
  if (psn - at.highest_sent < 0)
    ++core.counters.retransmitted;
  else
    at.highest_sent = psn + taken;
  if (psn + taken - at.window.next > 0) at.window = at.window.sent(psn, taken);
  at.packet += taken;
  if (at.packet >= work.psns) {
    ++at.at;
    at.packet = 0;
  }
  if (at.resume) {
    std::tie(at.at, at.packet) = *at.resume;
    at.resume.reset();
  }
  if (at.ack_deadline == never) restart_timer(core, qp);
}

/// Build the packet at the cursor. Empty if the request failed.
std::optional<OutgoingPacket> build(Core& core, QueuePair& qp) {
  Requester& at = qp.requester;
  SendWork& work = at.queue[at.at];
  const WireOperation words = *wire_operation(work.request.opcode);
  const bool read = words.operation == Operation::rdma_read_request;
  const Position position = is_segmented(words.operation) ? position_of(at.packet, work.psns) : Position::only;
  const bool ends = position == Position::last || position == Position::only;
  std::uint32_t index = at.packet;
  const bool again = work.first + index - at.highest_sent < 0;
  if (read && again && core.faults[Fault::asks_whole_read_again]) index = at.packet = 0;
  const bool bare = again && core.faults[Fault::retransmits_without_immediate];
  const Opcode* op = find_opcode(qp.transport(), words.operation, position, ends && words.immediate && !bare,
                                 ends && words.invalidate && !bare);
  if (!op) {
    fail(core, qp, at.at, Status::local_qp_operation);
    return std::nullopt;
  }
  OutgoingPacket packet = packet_of(core, qp, op->value, work.first + index);
  describe(core, qp, work, words, index, packet.fields);
  packet.fields.solicited = ends && work.request.solicited && (words.operation == Operation::send || op->immediate);
  packet.fields.ack_request = ends && !core.faults[Fault::never_asks_acknowledge];
  if (op->payload) {
    const std::uint64_t chunk = is_segmented(words.operation) ? chunk_of(core, qp) : work.length;
    const std::uint64_t from = index * chunk;
    const Status status =
        gather(core.memory, qp.options.pd, work.request, from, std::min(chunk, work.length - from), packet.payload);
    if (status != Status::success) {
      fail(core, qp, at.at, status);
      return std::nullopt;
    }
  }
  if (again && !packet.payload.empty() && core.faults[Fault::retransmits_other_bytes]) packet.payload[0] ^= 0xff;
  if (read) work.asked_from = index;
  advance(core, qp, work, packet.fields.psn, read ? work.psns - index : 1);
  return packet;
}

/// Start the request at the cursor. False if it cannot start now.
bool begin(Core& core, QueuePair& qp) {
  Requester& at = qp.requester;
  if (core.faults[Fault::newest_request_first])
    std::rotate(at.queue.begin() + static_cast<std::ptrdiff_t>(at.at), at.queue.end() - 1, at.queue.end());
  SendWork& work = at.queue[at.at];
  if (!may_begin(core, qp, work)) return false;
  work.started = true;
  work.failure = is_local(work.request.opcode) ? execute_local(core, qp, work.request) : prepare(core, qp, work);
  return true;
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
    const SendWork work = std::move(at.queue.front());
    at.queue.pop_front();
    if (at.at > 0)
      --at.at;
    else
      at.packet = 0;
    at.resume.reset();
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
  if (status == Status::local_qp_operation && core.faults[Fault::hides_unknown_operation]) return;
  complete_send(core, qp, failed, status, 0);
  if (qp.state == QpState::err) return;
  if (machines::after_send_error(qp.options.type) == QpState::err)
    enter_error(core, qp);
  else
    enter_send_error(core, qp);
}

std::optional<OutgoingPacket> next_request(Core& core, QueuePair& qp) {
  Requester& at = qp.requester;
  const bool zombie = qp.state == QpState::err && core.faults[Fault::sends_after_error];
  if ((!qp.sends() && !zombie) || core.now < at.rnr_until || core.now < qp.next_send) return std::nullopt;
  while (at.at < at.queue.size()) {
    SendWork& work = at.queue[at.at];
    if (!work.started) {
      if (!begin(core, qp)) return std::nullopt;
      continue;
    }
    if (work.failure != Status::success) {
      // A failed request completes after all preceding requests.
      if (at.at == 0) fail(core, qp, 0, work.failure);
      return std::nullopt;
    }
    if (work.psns == 0 || work.done) {  // local operation, or already complete and after a retransmission
      work.done = true;
      ++at.at;
      at.packet = 0;
      retire(core, qp);
      if (!qp.sends()) return std::nullopt;
      continue;
    }
    // Do not repeat the received part of a READ.
    at.packet = std::max(at.packet, work.answered);
    return build(core, qp);
  }
  return std::nullopt;
}

}  // namespace rdmawire::device
