/// The requester of reliable connections: segments, sends, waits, goes back, completes. IBTA vol 1, 9.7.5, 9.7.6.

#include <algorithm>

#include "conformance/device/core.hpp"
#include "dissectors/machines/rc_requester.hpp"

namespace rdmawire::device {

namespace {

struct Wording {
  Operation operation;
  bool immediate = false, invalidate = false;
};

std::optional<Wording> wording(WorkOpcode opcode) {
  switch (opcode) {
    case WorkOpcode::send: return Wording{Operation::send};
    case WorkOpcode::send_imm: return Wording{Operation::send, true};
    case WorkOpcode::send_inv: return Wording{Operation::send, false, true};
    case WorkOpcode::write: return Wording{Operation::rdma_write};
    case WorkOpcode::write_imm: return Wording{Operation::rdma_write, true};
    case WorkOpcode::read: return Wording{Operation::rdma_read_request};
    case WorkOpcode::compare_swap: return Wording{Operation::compare_swap};
    case WorkOpcode::fetch_add: return Wording{Operation::fetch_add};
    case WorkOpcode::flush: return Wording{Operation::flush};
    case WorkOpcode::atomic_write: return Wording{Operation::atomic_write};
    default: return std::nullopt;
  }
}

bool is_local(WorkOpcode opcode) {
  return opcode == WorkOpcode::local_inv || opcode == WorkOpcode::bind_mw || opcode == WorkOpcode::reg_mr;
}

machines::RcOutstanding outstanding_of(const SendWork& work) {
  return {.first = work.first,
          .psns = work.psns,
          .operation = wording(work.request.opcode)->operation,
          .length = static_cast<std::uint32_t>(work.length),
          .answered = work.answered,
          .asked_from = work.asked_from};
}

bool waits_for_answer(const SendWork& work) {
  return work.psns != 0 && !work.done && outstanding_of(work).needs_answer();
}

std::size_t answers_outstanding(const Requester& at) {
  return static_cast<std::size_t>(
      std::ranges::count_if(at.queue, [](const SendWork& work) { return work.started && waits_for_answer(work); }));
}

/// How many PSNs the message takes, and whether it can be sent at all.
Status prepare(Core& core, QueuePair& qp, SendWork& work) {
  const auto words = wording(work.request.opcode);
  if (!words) return Status::local_qp_operation;
  if (work.length > machines::longest_message) return Status::local_length;
  const std::uint32_t mtu = qp.attributes.path_mtu;
  const bool answered = machines::keeps_answer(words->operation);
  if (answered && qp.attributes.max_rd_atomic == 0) return Status::local_qp_operation;
  const bool writes_here = words->operation == Operation::rdma_read_request || machines::is_atomic(words->operation);
  if (machines::is_atomic(words->operation) || words->operation == Operation::atomic_write)
    if (work.length != 8) return Status::local_length;
  if (!work.request.is_inline)
    if (const Status status = check_local(core, qp.options.pd, work.request.sges, writes_here);
        status != Status::success)
      return status;
  const bool many = words->operation == Operation::send || words->operation == Operation::rdma_write ||
                    words->operation == Operation::rdma_read_request;
  work.psns = many ? machines::psns_of_read(static_cast<std::uint32_t>(work.length), mtu) : 1;
  work.first = qp.requester.window.next;
  return Status::success;
}

/// Whether the next request may begin, of what is not begun.
bool may_begin(const Core& core, const QueuePair& qp, const SendWork& work) {
  (void)core;
  const Requester& at = qp.requester;
  if (qp.state != QpState::rts) return false;
  const bool fenced = work.request.fence && !is_local(work.request.opcode);
  if (fenced && answers_outstanding(at) != 0) return false;  // 10.8.3.3
  // 10.6.5.1: a fenced local invalidation waits for everything before it.
  if (work.request.fence && is_local(work.request.opcode) && at.at != 0) return false;
  const auto words = wording(work.request.opcode);
  if (words && machines::keeps_answer(words->operation) && qp.attributes.max_rd_atomic != 0 &&
      answers_outstanding(at) >= qp.attributes.max_rd_atomic)
    return false;
  // Far from where PSNs would be ambiguous.
  return at.window.outstanding() < Psn::half / 2;
}

/// Completes what is done, from the oldest on.
void retire(Core& core, QueuePair& qp) {
  Requester& at = qp.requester;
  while (!at.queue.empty() && at.queue.front().done) {
    const SendWork work = std::move(at.queue.front());
    at.queue.pop_front();
    if (at.at > 0)
      --at.at;
    else
      at.packet = 0;
    const bool here = work.request.opcode == WorkOpcode::read || work.request.opcode == WorkOpcode::compare_swap ||
                      work.request.opcode == WorkOpcode::fetch_add;
    complete_send(core, qp, work.request, Status::success, here ? static_cast<std::uint32_t>(work.length) : 0);
    if (qp.state == QpState::err) return;
  }
  check_drained(core, qp);
}

/// Marks what lies before the window as done.
void settle(Requester& at) {
  for (SendWork& work : at.queue) {
    if (!work.started) break;
    if (work.done) continue;
    if (work.psns == 0) continue;
    const machines::RcOutstanding message = outstanding_of(work);
    if (at.window.oldest - message.last() <= 0) break;
    if (message.answered < message.answers()) break;
    work.done = true;
  }
}

void restart_timer(Core& core, QueuePair& qp) {
  Requester& at = qp.requester;
  const std::int64_t timeout = machines::ack_timeout_ns(qp.attributes.timeout);
  at.ack_deadline = timeout == 0 || at.window.outstanding() == 0 ? never : core.now + 2 * timeout;
}

/// Sending begins again at `psn`.
void go_back(Requester& at, Psn psn) {
  for (std::size_t i = 0; i < at.queue.size(); ++i) {
    SendWork& work = at.queue[i];
    if (!work.started) break;
    if (work.psns == 0 || work.done || psn - outstanding_of(work).last() > 0) continue;
    at.at = i;
    at.packet = static_cast<std::uint32_t>(std::max(0, psn - work.first));
    break;
  }
}

PacketFields fields_of(const SendWork& work, const Wording& words, std::uint32_t packet, std::uint32_t mtu) {
  const SendRequest& request = work.request;
  PacketFields to;
  to.va = request.remote_address;
  to.rkey = request.rkey;
  to.length = static_cast<std::uint32_t>(work.length);
  if (words.operation == Operation::rdma_read_request) {
    to.va += std::uint64_t{packet} * mtu;
    to.length -= packet * mtu;
  }
  if (words.operation == Operation::flush) to.length = request.length;
  to.swap_add = request.swap_add;
  to.compare = request.compare;
  to.placement = request.placement;
  to.selectivity = request.selectivity;
  to.immediate = request.immediate;
  to.xrc_srq = request.xrc_srq;
  return to;
}

Position position_of(std::uint32_t packet, std::uint32_t packets) {
  if (packets == 1) return Position::only;
  return packet == 0 ? Position::first : packet + 1 == packets ? Position::last : Position::middle;
}

/// The packet that the cursor stands at; the cursor moves on. Nothing: the request failed.
std::optional<OutgoingPacket> build(Core& core, QueuePair& qp) {
  Requester& at = qp.requester;
  SendWork& work = at.queue[at.at];
  const Wording words = *wording(work.request.opcode);
  const std::uint32_t mtu = qp.attributes.path_mtu;
  const bool read = words.operation == Operation::rdma_read_request;
  const bool segmented = words.operation == Operation::send || words.operation == Operation::rdma_write;
  const Position position = segmented ? position_of(at.packet, work.psns) : Position::only;
  const bool ends = position == Position::last || position == Position::only;
  const Opcode* op =
      find_opcode(qp.transport(), words.operation, position, ends && words.immediate, ends && words.invalidate);
  if (!op) {
    fail(core, qp, at.at, Status::local_qp_operation);
    return std::nullopt;
  }
  OutgoingPacket packet = packet_of(core, qp, op->value, work.first + at.packet);
  const PacketFields common = packet.fields;
  packet.fields = fields_of(work, words, at.packet, mtu);
  packet.fields.opcode = op->value;
  packet.fields.pkey = common.pkey;
  packet.fields.dest_qpn = common.dest_qpn;
  packet.fields.psn = common.psn;
  packet.fields.solicited = ends && work.request.solicited && (words.operation == Operation::send || op->immediate);
  packet.fields.ack_request = ends;
  if (op->payload) {
    const std::uint64_t from = std::uint64_t{at.packet} * mtu;
    const std::uint64_t count = std::min<std::uint64_t>(mtu, work.length - from);
    if (const Status status = gather(core, qp.options.pd, work.request, from, count, packet.payload);
        status != Status::success) {
      fail(core, qp, at.at, status);
      return std::nullopt;
    }
  }
  if (read) work.asked_from = at.packet;
  const std::uint32_t taken = read ? work.psns - at.packet : 1;
  const Psn after = packet.fields.psn + taken;
  if (packet.fields.psn - at.highest_sent < 0)
    ++core.counters.retransmitted;
  else
    at.highest_sent = packet.fields.psn + 1;
  if (after - at.window.next > 0) at.window = at.window.sent(packet.fields.psn, taken);
  at.packet += taken;
  if (at.packet >= work.psns) {
    ++at.at;
    at.packet = 0;
  }
  if (at.ack_deadline == never) restart_timer(core, qp);
  return packet;
}

/// Places what a READ or an atomic brought.
Status take_payload(Core& core, QueuePair& qp, SendWork& work, const Packet& packet) {
  const std::vector<Sge>& sges = work.request.sges;
  switch (packet.op->operation) {
    case Operation::rdma_read_response: {
      const auto index = static_cast<std::uint32_t>(packet.fields.psn - work.first);
      ++work.answered;
      return scatter(core, qp.options.pd, sges, std::uint64_t{index} * qp.attributes.path_mtu, packet.payload);
    }
    case Operation::atomic_acknowledge: {
      ++work.answered;
      // Memory holds the value in the host's order.
      std::array<std::uint8_t, 8> value;
      store_le(value.data(), 8, packet.fields.original);
      return scatter(core, qp.options.pd, sges, 0, value);
    }
    default: return Status::success;
  }
}

Status status_of(machines::RcFailure failure) {
  switch (failure) {
    case machines::RcFailure::none: return Status::success;
    case machines::RcFailure::remote_invalid_request: return Status::remote_invalid_request;
    case machines::RcFailure::remote_access: return Status::remote_access;
    case machines::RcFailure::remote_operation: return Status::remote_operation;
    case machines::RcFailure::bad_response: return Status::bad_response;
    case machines::RcFailure::local_length: return Status::local_length;
    case machines::RcFailure::retry_exceeded: return Status::retry_exceeded;
    case machines::RcFailure::rnr_retry_exceeded: return Status::rnr_retry_exceeded;
  }
  return Status::general;
}

/// The index in the queue of the request that a PSN belongs to; the queue's size: of none.
std::size_t index_of(const Requester& at, Psn psn) {
  for (std::size_t i = 0; i < at.queue.size() && at.queue[i].started; ++i)
    if (at.queue[i].psns != 0 && psn - at.queue[i].first >= 0 && psn - outstanding_of(at.queue[i]).last() <= 0)
      return i;
  return at.queue.size();
}

void fail_at(Core& core, QueuePair& qp, Psn psn, Status status) {
  const std::size_t index = index_of(qp.requester, psn);
  if (index < qp.requester.queue.size()) fail(core, qp, index, status);
}

/// Another try, if one is left.
void retry(Core& core, QueuePair& qp, Psn psn) {
  Requester& at = qp.requester;
  if (!at.retries.again()) {
    ++core.counters.retries_exceeded;
    fail_at(core, qp, psn, Status::retry_exceeded);
    return;
  }
  go_back(at, psn);
  restart_timer(core, qp);
}

void wait_for_receiver(Core& core, QueuePair& qp, Psn psn, std::uint8_t syndrome) {
  Requester& at = qp.requester;
  ++core.counters.rnr_naks_received;
  if (!at.retries.again_after_rnr()) {
    ++core.counters.rnr_retries_exceeded;
    fail_at(core, qp, psn, Status::rnr_retry_exceeded);
    return;
  }
  go_back(at, psn);
  at.rnr_until = core.now + static_cast<std::int64_t>(rnr_timer_ns(syndrome & 31));
  at.ack_deadline = never;
}

}  // namespace

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

void fail(Core& core, QueuePair& qp, std::size_t index, Status status) {
  Requester& at = qp.requester;
  // What stands before it was acknowledged, or is flushed with the rest.
  const SendRequest failed = at.queue[index].request;
  for (std::size_t i = 0; i < index; ++i) {
    const SendWork work = at.queue.front();
    at.queue.pop_front();
    complete_send(core, qp, work.request, work.done ? Status::success : Status::flushed, 0);
    if (qp.state == QpState::err) return;
  }
  at.queue.pop_front();
  complete_send(core, qp, failed, status, 0);
  if (qp.state == QpState::err) return;
  if (qp.is_reliable())
    enter_error(core, qp);
  else
    enter_send_error(core, qp);
}

Status execute_local(Core& core, QueuePair& qp, const SendRequest& request) {
  switch (request.opcode) {
    case WorkOpcode::local_inv: return core.memory.invalidate_local(request.rkey, {qp.options.pd, qp.qpn});
    case WorkOpcode::bind_mw: return core.memory.bind(request, qp.options.pd, qp.qpn);
    case WorkOpcode::reg_mr: return core.memory.fast_register(request, qp.options.pd);
    default: return Status::local_qp_operation;
  }
}

std::optional<OutgoingPacket> next_request(Core& core, QueuePair& qp) {
  Requester& at = qp.requester;
  if (!qp.sends() || core.now < at.rnr_until || core.now < qp.next_send) return std::nullopt;
  while (at.at < at.queue.size()) {
    SendWork& work = at.queue[at.at];
    if (!work.started) {
      if (!may_begin(core, qp, work)) return std::nullopt;
      work.started = true;
      const Status status =
          is_local(work.request.opcode) ? execute_local(core, qp, work.request) : prepare(core, qp, work);
      work.failure = status;
    }
    if (work.failure != Status::success) {
      // It fails when all before it are completed.
      if (at.at == 0) fail(core, qp, 0, work.failure);
      return std::nullopt;
    }
    if (work.psns == 0) {  // a local operation: done, and skipped when it lies behind what is sent again
      work.done = true;
      ++at.at;
      retire(core, qp);
      if (!qp.sends()) return std::nullopt;
      continue;
    }
    if (work.done) {
      ++at.at;
      at.packet = 0;
      continue;
    }
    // Of a READ what has come is not asked for again.
    at.packet = std::max(at.packet, work.answered);
    return build(core, qp);
  }
  return std::nullopt;
}

void receive_response(Core& core, QueuePair& qp, const Packet& packet) {
  Requester& at = qp.requester;
  if (!qp.takes_responses()) return;
  std::vector<machines::RcOutstanding> outstanding;
  std::vector<std::size_t> indices;
  for (std::size_t i = 0; i < at.queue.size() && at.queue[i].started; ++i)
    if (at.queue[i].psns != 0 && !at.queue[i].done) {
      outstanding.push_back(outstanding_of(at.queue[i]));
      indices.push_back(i);
    }
  const bool has_aeth =
      packet.op->operation != Operation::rdma_read_response || packet.op->position != Position::middle;
  const machines::RcResponse response{.op = packet.op,
                                      .psn = packet.fields.psn,
                                      .syndrome = packet.fields.syndrome,
                                      .has_aeth = has_aeth,
                                      .payload = static_cast<std::uint32_t>(packet.payload.size())};
  const machines::RcProgress progress = machines::judge(outstanding, at.window, response, qp.attributes.path_mtu);
  using machines::RcStep;
  if (progress.step == RcStep::ignore) return;
  if (packet.op->operation == Operation::acknowledge && packet.fields.syndrome >> 5 == syndrome_kind::nak)
    ++core.counters.naks_received;

  Psn through = progress.through;
  if (progress.takes_payload) {
    SendWork& work = at.queue[indices[progress.message]];
    if (packet.op->operation == Operation::rdma_read_response && waits_for_answer(work) &&
        outstanding_of(work).operation != Operation::rdma_read_request)
      work.answered = 1;  // FLUSH and ATOMIC WRITE are answered by an empty READ response
    else if (const Status status = take_payload(core, qp, work, packet); status != Status::success) {
      fail(core, qp, indices[progress.message], status);
      return;
    }
    through = packet.fields.psn + 1;
  }
  const bool forward = through - at.window.oldest > 0;
  at.window = at.window.acknowledged(through - 1);
  if (forward) {
    at.retries = at.retries.reloaded();
    at.went_back_to.reset();
    restart_timer(core, qp);
  }
  settle(at);
  // What is acknowledged is not sent (again).
  if (at.at < at.queue.size() && at.queue[at.at].started && !at.queue[at.at].done && at.queue[at.at].psns != 0)
    at.packet = static_cast<std::uint32_t>(
        std::max<std::int32_t>(static_cast<std::int32_t>(at.packet), at.window.oldest - at.queue[at.at].first));

  switch (progress.step) {
    case RcStep::go_back:
      if (at.went_back_to == progress.restart) break;  // of the same loss: no second round
      at.went_back_to = progress.restart;
      if (progress.implied) ++core.counters.implied_naks;
      retry(core, qp, progress.restart);
      break;
    case RcStep::wait: wait_for_receiver(core, qp, progress.restart, packet.fields.syndrome); break;
    case RcStep::fail: fail_at(core, qp, progress.restart, status_of(progress.failure)); break;
    default: break;
  }
  if (qp.sends()) retire(core, qp);
}

void requester_timers(Core& core, QueuePair& qp) {
  Requester& at = qp.requester;
  if (!qp.sends() || core.now < at.ack_deadline) return;
  at.ack_deadline = never;
  if (at.window.outstanding() == 0) return;
  ++core.counters.timeouts;
  at.went_back_to.reset();
  retry(core, qp, at.window.oldest);
}

std::int64_t next_timer(const Core& core, const QueuePair& qp) {
  const Requester& at = qp.requester;
  if (!qp.sends()) return never;
  std::int64_t next = at.ack_deadline;
  if (at.at < at.queue.size())
    for (const std::int64_t waits : {at.rnr_until, qp.next_send})
      if (waits > core.now) next = std::min(next, waits);
  return next;
}

}  // namespace rdmawire::device
