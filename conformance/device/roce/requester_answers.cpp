/// Processing of responses and timeouts in the requester of reliable connections. IBTA vol 1, 9.7.5, 9.7.6.

#include <algorithm>

#include "conformance/device/roce/requester.hpp"

namespace rdmawire::device {

namespace {

using machines::RcFailure;
using machines::RcStep;

/// Mark requests as done whose PSNs are all acknowledged.
void settle(Requester& at) {
  for (SendWork& work : at.queue) {
    if (!work.started) break;
    if (work.done || work.psns == 0) continue;
    const machines::RcOutstanding message = outstanding_of(work);
    if (at.window.oldest - message.last() <= 0 || message.answered < message.answers()) break;
    work.done = true;
  }
}

machines::RcResponse response_of(const Packet& packet) {
  const Opcode& op = *packet.op;
  return {.op = packet.op,
          .psn = packet.fields.psn,
          .syndrome = packet.fields.syndrome,
          .has_aeth = op.operation != Operation::rdma_read_response || op.position != Position::middle,
          .payload = static_cast<std::uint32_t>(packet.payload.size())};
}

void fail_at(Core& core, QueuePair& qp, Psn psn, Status status) {
  const std::size_t index = index_of(qp.requester, psn);
  if (index < qp.requester.queue.size()) fail(core, qp, index, status);
}

/// Retransmit, or fail the request if no retry is left.
void retry(Core& core, QueuePair& qp, Psn psn) {
  if (!core.decisions.requester.may_retry(qp.requester)) {
    ++core.counters.retries_exceeded;
    fail_at(core, qp, psn, Status::retry_exceeded);
    return;
  }
  core.decisions.requester.go_back(qp.requester, psn);
  restart_timer(core, qp);
}

void wait_for_receiver(Core& core, QueuePair& qp, Psn psn, Syndrome syndrome) {
  const RequesterDecisions& decisions = core.decisions.requester;
  Requester& at = qp.requester;
  ++core.counters.rnr_naks_received;
  if (!decisions.may_retry_after_rnr(at)) {
    ++core.counters.rnr_retries_exceeded;
    fail_at(core, qp, psn, Status::rnr_retry_exceeded);
    return;
  }
  decisions.go_back(at, psn);
  at.rnr_until = core.now + decisions.rnr_wait(syndrome);
  at.ack_deadline = never;
}

void note_credits(Requester& at, const Packet& packet) {
  const Syndrome syndrome(packet.fields.syndrome);
  if (!syndrome.is_ack()) return;
  at.credits_known = syndrome.has_credits();
  if (at.credits_known) at.limit = Msn(packet.fields.msn) + static_cast<std::int64_t>(syndrome.credits());
}

void follow(Core& core, QueuePair& qp, const Packet& packet, const machines::RcProgress& progress) {
  switch (progress.step) {
    case RcStep::go_back: core.decisions.requester.recover(core, qp, progress); break;
    case RcStep::wait: wait_for_receiver(core, qp, progress.restart, Syndrome(packet.fields.syndrome)); break;
    case RcStep::fail: core.decisions.requester.fail_request(core, qp, packet, progress); break;
    default: break;
  }
  if (qp.sends()) retire(core, qp);
}

/// Mark all PSNs before `through` as acknowledged.
void acknowledge(Core& core, QueuePair& qp, Psn through) {
  Requester& at = qp.requester;
  const bool forward = through - at.window.oldest > 0;
  at.window = at.window.acknowledged(through - 1);
  if (forward) {
    core.decisions.requester.reload_retries(at);
    at.went_back_to.reset();
    restart_timer(core, qp);
  }
  settle(at);
  // Skip acknowledged packets.
  if (at.at < at.queue.size() && at.queue[at.at].started && !at.queue[at.at].done && at.queue[at.at].psns != 0)
    at.packet = static_cast<std::uint32_t>(
        std::max<std::int32_t>(static_cast<std::int32_t>(at.packet), at.window.oldest - at.queue[at.at].first));
}

}  // namespace

void restart_timer(Core& core, QueuePair& qp) {
  Requester& at = qp.requester;
  const std::int64_t timeout = core.decisions.requester.transport_timeout(qp);
  at.ack_deadline = timeout == 0 || at.window.outstanding() == 0 ? never : core.now + timeout;
}

void receive_response(Core& core, QueuePair& qp, const Packet& packet) {
  const RequesterDecisions& decisions = core.decisions.requester;
  Requester& at = qp.requester;
  if (!qp.takes_responses()) return;
  const machines::RcResponse response = response_of(packet);
  const machines::RcProgress progress = decisions.judge_response(qp, response);
  if (progress.step == RcStep::ignore) {
    decisions.ignore_response(core, qp, packet);
    return;
  }
  if (response.has_aeth) note_credits(at, packet);
  if (packet.op->operation == Operation::acknowledge && Syndrome(packet.fields.syndrome).is_nak())
    ++core.counters.naks_received;
  if (progress.takes_payload) {
    const Status status = decisions.take_payload(core, qp, at.queue[progress.message], packet);
    if (status != Status::success) {
      fail(core, qp, progress.message, status);
      return;
    }
  }
  acknowledge(core, qp, progress.through);
  follow(core, qp, packet, progress);
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

namespace conforming {

machines::RcProgress judge_response(QueuePair& qp, const machines::RcResponse& response) {
  const Requester& at = qp.requester;
  std::vector<machines::RcOutstanding> outstanding;
  std::vector<std::size_t> indices;
  for (std::size_t i = 0; i < at.queue.size() && at.queue[i].started; ++i)
    if (at.queue[i].psns != 0 && !at.queue[i].done) {
      outstanding.push_back(outstanding_of(at.queue[i]));
      indices.push_back(i);
    }
  machines::RcProgress progress = machines::judge(outstanding, at.window, response, qp.attributes.path_mtu);
  if (progress.takes_payload) {
    progress.message = indices[progress.message];
    progress.through = response.psn + 1;
  }
  return progress;
}

void ignore_response(Core& /*core*/, QueuePair& /*qp*/, const Packet& /*packet*/) {}

Status take_payload(Core& core, QueuePair& qp, SendWork& work, const Packet& packet) {
  const std::vector<Sge>& sges = work.request.sges;
  const Operation asked = outstanding_of(work).operation;
  if (packet.op->operation == Operation::atomic_acknowledge) {
    work.answered = outstanding_of(work).answers();
    // Write the value in host byte order, which is little endian.
    std::array<std::uint8_t, 8> value;
    store_le(value.data(), 8, packet.fields.original);
    return scatter(core.memory, qp.options.pd, sges, 0, value);
  }
  if (asked != Operation::rdma_read_request) {
    work.answered = 1;  // FLUSH and ATOMIC WRITE get an empty READ response
    return Status::success;
  }
  const auto index = static_cast<std::uint32_t>(packet.fields.psn - work.first);
  work.answered = index + 1;
  const std::uint64_t from = std::uint64_t{index} * qp.attributes.path_mtu;
  return scatter(core.memory, qp.options.pd, sges, from, packet.payload);
}

void fail_request(Core& core, QueuePair& qp, const Packet& packet, const machines::RcProgress& progress) {
  fail_at(core, qp, progress.restart, core.decisions.requester.failure_status(packet, progress.failure));
}

Status failure_status(const Packet& /*packet*/, RcFailure failure) {
  switch (failure) {
    case RcFailure::none: return Status::success;
    case RcFailure::remote_invalid_request: return Status::remote_invalid_request;
    case RcFailure::remote_access: return Status::remote_access;
    case RcFailure::remote_operation: return Status::remote_operation;
    case RcFailure::bad_response: return Status::bad_response;
    case RcFailure::local_length: return Status::local_length;
    case RcFailure::retry_exceeded: return Status::retry_exceeded;
    case RcFailure::rnr_retry_exceeded: return Status::rnr_retry_exceeded;
  }
  return Status::general;
}

std::int64_t transport_timeout(const QueuePair& qp) { return machines::ack_timeout_ns(qp.attributes.timeout) * 2; }

std::int64_t rnr_wait(Syndrome syndrome) { return static_cast<std::int64_t>(syndrome.wait_ns()); }

bool may_retry(Requester& at) { return at.retries.again(); }

bool may_retry_after_rnr(Requester& at) { return at.retries.again_after_rnr(); }

void reload_retries(Requester& at) { at.retries = at.retries.reloaded(); }

void recover(Core& core, QueuePair& qp, const machines::RcProgress& progress) {
  const RequesterDecisions& decisions = core.decisions.requester;
  Requester& at = qp.requester;
  if (decisions.recovers_already(at, progress.restart)) return;
  at.went_back_to = progress.restart;
  if (progress.implied) ++core.counters.implied_naks;
  retry(core, qp, decisions.restart_psn(progress));
}

bool recovers_already(const Requester& at, Psn psn) { return at.went_back_to == psn; }

Psn restart_psn(const machines::RcProgress& progress) { return progress.restart; }

void go_back(Requester& at, Psn psn) {
  for (std::size_t i = 0; i < at.queue.size(); ++i) {
    const SendWork& work = at.queue[i];
    if (!work.started) break;
    if (work.psns == 0 || work.done || psn - outstanding_of(work).last() > 0) continue;
    at.at = i;
    at.packet = static_cast<std::uint32_t>(std::max(0, psn - work.first));
    break;
  }
}

}  // namespace conforming

}  // namespace rdmawire::device
