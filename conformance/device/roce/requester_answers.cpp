/// Processing of responses and timeouts in the requester of reliable connections. IBTA vol 1, 9.7.5, 9.7.6.

#include <algorithm>

#include "conformance/device/roce/requester.hpp"

namespace rdmawire::device {

namespace {

using machines::RcFailure;
using machines::RcStep;

/// Mark requests before the window as done.
void settle(Requester& at) {
  for (SendWork& work : at.queue) {
    if (!work.started) break;
    if (work.done || work.psns == 0) continue;
    const machines::RcOutstanding message = outstanding_of(work);
    if (at.window.oldest - message.last() <= 0 || message.answered < message.answers()) break;
    work.done = true;
  }
}

/// Fault: mark responses as received up to a PSN.
void believe_answered(Requester& at, Psn through) {
  for (SendWork& work : at.queue)
    if (work.started && work.psns != 0 && outstanding_of(work).last() - through <= 0)
      work.answered = outstanding_of(work).answers();
}

/// Store the data of a READ or an atomic.
Status take_payload(Core& core, QueuePair& qp, SendWork& work, const Packet& packet) {
  const std::vector<Sge>& sges = work.request.sges;
  const Operation asked = outstanding_of(work).operation;
  if (packet.op->operation == Operation::atomic_acknowledge) {
    work.answered = outstanding_of(work).answers();
    // Memory contains the value in host byte order.
    std::array<std::uint8_t, 8> value;
    store_le(value.data(), 8, packet.fields.original);
    return asked == Operation::rdma_read_request ? Status::success
                                                 : scatter(core.memory, qp.options.pd, sges, 0, value);
  }
  if (asked != Operation::rdma_read_request) {
    work.answered = 1;  // FLUSH and ATOMIC WRITE get an empty READ response
    return Status::success;
  }
  const auto index = static_cast<std::uint32_t>(packet.fields.psn - work.first);
  work.answered = index + 1;
  const std::uint64_t from = std::uint64_t{index} * qp.attributes.path_mtu;
  Bytes payload = packet.payload;
  if (from + payload.size() > work.length && core.faults[Fault::takes_long_responses])
    payload = payload.first(work.length - from);
  return scatter(core.memory, qp.options.pd, sges, from, payload);
}

Status status_of(RcFailure failure) {
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

/// Return the queue index of the request that a PSN belongs to, or the queue size if there is none.
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

/// Retry if the retry counter permits.
void retry(Core& core, QueuePair& qp, Psn psn) {
  Requester& at = qp.requester;
  bool left = at.retries.again();
  if (!left && core.faults[Fault::one_retry_more] && !at.extra_retry) left = at.extra_retry = true;
  if (!left) {
    ++core.counters.retries_exceeded;
    fail_at(core, qp, psn, Status::retry_exceeded);
    return;
  }
  go_back(core, at, psn);
  restart_timer(core, qp);
}

/// Recover after a sequence error NAK or an implied NAK.
void go_back_for(Core& core, QueuePair& qp, const machines::RcProgress& progress) {
  Requester& at = qp.requester;
  // Ignore further NAKs of the same loss.
  if (at.went_back_to == progress.restart && !core.faults[Fault::retries_for_every_nak]) return;
  at.went_back_to = progress.restart;
  if (progress.implied) ++core.counters.implied_naks;
  const auto before = std::pair(at.at, at.packet);
  retry(core, qp,
        core.faults[Fault::restarts_behind_nak] && !progress.implied ? progress.restart + 1 : progress.restart);
  if (core.faults[Fault::selective_repeat] && !progress.implied && qp.sends()) at.resume = before;
}

bool another_after_rnr(const Core& core, Requester& at) {
  if (core.faults[Fault::seven_rnr_retries] && at.retries.rnr == machines::RcRetries::without_limit)
    return at.retries.rnr_left != 0 && (--at.retries.rnr_left, true);
  if (at.retries.again_after_rnr()) return true;
  return core.faults[Fault::one_rnr_retry_more] && !at.extra_retry && (at.extra_retry = true);
}

void wait_for_receiver(Core& core, QueuePair& qp, Psn psn, std::uint8_t syndrome) {
  Requester& at = qp.requester;
  ++core.counters.rnr_naks_received;
  if (!another_after_rnr(core, at)) {
    ++core.counters.rnr_retries_exceeded;
    fail_at(core, qp, psn, Status::rnr_retry_exceeded);
    return;
  }
  go_back(core, at, psn);
  const auto wait = static_cast<std::int64_t>(Syndrome(syndrome).wait_ns());
  at.rnr_until = core.now + (core.faults[Fault::impatient_rnr] ? wait / 2 : wait);
  at.ack_deadline = never;
}

/// Return the outstanding messages for the state machine. `indices`: their positions in the queue.
std::vector<machines::RcOutstanding> waiting(const Requester& at, std::vector<std::size_t>& indices) {
  std::vector<machines::RcOutstanding> outstanding;
  for (std::size_t i = 0; i < at.queue.size() && at.queue[i].started; ++i)
    if (at.queue[i].psns != 0 && !at.queue[i].done) {
      outstanding.push_back(outstanding_of(at.queue[i]));
      indices.push_back(i);
    }
  return outstanding;
}

/// Fault: change a response before the state machine evaluates it.
void mistake(const Core& core, QueuePair& qp, const Packet& packet, machines::RcResponse& response) {
  Requester& at = qp.requester;
  const bool is_ack = packet.op->operation == Operation::acknowledge;
  const std::uint8_t kind = Syndrome(response.syndrome).kind();
  if (is_ack && kind == syndrome_kind::reserved && core.faults[Fault::takes_reserved_syndrome])
    response.syndrome = Syndrome::ack().bits();
  if (is_ack && kind == syndrome_kind::ack && at.window.place(response.psn) == machines::ResponsePlace::unsent &&
      core.faults[Fault::believes_ghost_acks]) {
    response.psn = at.window.next - 1;
    believe_answered(at, response.psn);
  }
  if (is_ack && kind == syndrome_kind::ack && core.faults[Fault::ack_completes_reads])
    believe_answered(at, response.psn);
  const std::size_t index = index_of(at, response.psn);
  if (index == at.queue.size()) return;
  SendWork& work = at.queue[index];
  const bool read = outstanding_of(work).operation == Operation::rdma_read_request;
  if (!read) return;
  const auto place = static_cast<std::uint32_t>(response.psn - work.first);
  if (packet.op->operation == Operation::atomic_acknowledge && core.faults[Fault::takes_wrong_answers]) {
    work.answered = work.psns;
    response.op = find_opcode(qp.transport(), Operation::acknowledge);
    response.psn = work.first + (work.psns - 1);
    response.syndrome = Syndrome::ack().bits();
    return;
  }
  if (packet.op->operation != Operation::rdma_read_response) return;
  const std::uint64_t from = std::uint64_t{place} * qp.attributes.path_mtu;
  const auto wanted = static_cast<std::uint32_t>(std::min<std::uint64_t>(work.length - from, qp.attributes.path_mtu));
  const bool last = place + 1 == work.psns;
  if (packet.op->position == Position::middle && place == 0 && core.faults[Fault::takes_middle_first])
    response.op = find_opcode(qp.transport(), Operation::rdma_read_response, last ? Position::only : Position::first);
  if (response.payload < wanted && core.faults[Fault::takes_short_responses]) {
    response.payload = wanted;
    if (packet.op->ends_message() && !last) {
      work.answered = work.psns - 1;
      response.psn = work.first + work.answered;
      response.op = find_opcode(qp.transport(), Operation::rdma_read_response, Position::last);
      response.payload =
          static_cast<std::uint32_t>(work.length - std::uint64_t{work.answered} * qp.attributes.path_mtu);
    }
  }
  if (response.payload > wanted && core.faults[Fault::takes_long_responses]) response.payload = wanted;
  if (place > work.answered && core.faults[Fault::ignores_response_gap]) work.answered = place;
}

/// Process a response to a PSN that is not outstanding. It is ignored unless a fault is set.
void mind_ghost(Core& core, QueuePair& qp, const Packet& packet) {
  Requester& at = qp.requester;
  const auto place = at.window.place(packet.fields.psn);
  const bool gap_nak = packet.op->operation == Operation::acknowledge &&
                       Syndrome(packet.fields.syndrome).is_nak(nak_code::psn_sequence_error);
  const bool believed = (place == machines::ResponsePlace::unsent && core.faults[Fault::believes_ghost_naks]) ||
                        (place == machines::ResponsePlace::acknowledged && core.faults[Fault::believes_stale_naks]);
  if (gap_nak && believed) {
    go_back(core, at, at.window.oldest);
    return;
  }
  const std::size_t index = index_of(at, packet.fields.psn);
  if (packet.op->operation != Operation::rdma_read_response || index == at.queue.size() ||
      !core.faults[Fault::places_duplicate_responses])
    return;
  const SendWork& work = at.queue[index];
  const auto from = std::uint64_t{static_cast<std::uint32_t>(packet.fields.psn - work.first)} * qp.attributes.path_mtu;
  if (outstanding_of(work).operation == Operation::rdma_read_request)
    (void)scatter(core.memory, qp.options.pd, work.request.sges, from, packet.payload);
}

void note_credits(Requester& at, const Packet& packet) {
  const Syndrome syndrome(packet.fields.syndrome);
  if (!syndrome.is_ack()) return;
  at.credits_known = syndrome.has_credits();
  if (at.credits_known) at.limit = Msn(packet.fields.msn) + static_cast<std::int64_t>(syndrome.credits());
}

/// Process a NAK or an invalid response.
void end_in_failure(Core& core, QueuePair& qp, const Packet& packet, const machines::RcProgress& progress) {
  const bool nak = packet.op->operation == Operation::acknowledge;
  const std::uint8_t code = Syndrome(packet.fields.syndrome).code();
  if (nak && code > nak_code::remote_operational_error && core.faults[Fault::ignores_reserved_naks]) return;
  const std::size_t index = index_of(qp.requester, progress.restart);
  const bool midway = index < qp.requester.queue.size() && qp.requester.queue[index].answered != 0;
  if (progress.failure == RcFailure::remote_access && midway && core.faults[Fault::retries_access_errors]) {
    go_back(core, qp.requester, progress.restart);
    return;
  }
  const bool other = nak && core.faults[Fault::wrong_status_of_nak];
  fail_at(core, qp, progress.restart, other ? Status::remote_operation : status_of(progress.failure));
}

void follow(Core& core, QueuePair& qp, const Packet& packet, const machines::RcProgress& progress) {
  Requester& at = qp.requester;
  switch (progress.step) {
    case RcStep::go_back: go_back_for(core, qp, progress); break;
    case RcStep::wait:
      wait_for_receiver(core, qp, core.faults[Fault::rnr_acknowledges_nothing] ? at.window.oldest : progress.restart,
                        packet.fields.syndrome);
      break;
    case RcStep::fail: end_in_failure(core, qp, packet, progress); break;
    default: break;
  }
  if (qp.sends()) retire(core, qp);
}

/// Acknowledge all PSNs before `through`.
void acknowledge(Core& core, QueuePair& qp, Psn through) {
  Requester& at = qp.requester;
  const bool forward = through - at.window.oldest > 0;
  at.window = at.window.acknowledged(through - 1);
  if (forward) {
    if (!core.faults[Fault::never_reloads_retries]) at.retries = at.retries.reloaded();
    at.extra_retry = false;
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
  std::uint8_t code = qp.attributes.timeout;
  if (code == 0 && core.faults[Fault::timer_despite_zero]) code = 14;
  const std::int64_t timeout = machines::ack_timeout_ns(code);
  // 9.7.6.1.3: the timer expires after 1 to 4 times the timeout.
  const std::int64_t wait = core.faults[Fault::impatient_timer] ? timeout / 2
                            : core.faults[Fault::slow_timer]    ? timeout * 5
                                                                : timeout * 2;
  at.ack_deadline = timeout == 0 || at.window.outstanding() == 0 ? never : core.now + wait;
}

void go_back(const Core& core, Requester& at, Psn psn) {
  if (core.faults[Fault::retry_does_not_wrap] && psn.value() > at.window.next.value()) psn = Psn(0);
  at.resume.reset();
  for (std::size_t i = 0; i < at.queue.size(); ++i) {
    SendWork& work = at.queue[i];
    if (!work.started) break;
    if (work.psns == 0 || work.done || psn - outstanding_of(work).last() > 0) continue;
    at.at = i;
    at.packet = static_cast<std::uint32_t>(std::max(0, psn - work.first));
    break;
  }
}

void receive_response(Core& core, QueuePair& qp, const Packet& packet) {
  Requester& at = qp.requester;
  if (!qp.takes_responses()) return;
  const bool has_aeth =
      packet.op->operation != Operation::rdma_read_response || packet.op->position != Position::middle;
  machines::RcResponse response{.op = packet.op,
                                .psn = packet.fields.psn,
                                .syndrome = packet.fields.syndrome,
                                .has_aeth = has_aeth,
                                .payload = static_cast<std::uint32_t>(packet.payload.size())};
  if (core.faults.any()) mistake(core, qp, packet, response);
  std::vector<std::size_t> indices;
  auto outstanding = waiting(at, indices);
  machines::RcProgress progress = machines::judge(outstanding, at.window, response, qp.attributes.path_mtu);
  if (progress.implied && core.faults[Fault::skips_missing_reads]) {
    believe_answered(at, packet.fields.psn - 1);
    indices.clear();
    outstanding = waiting(at, indices);
    progress = machines::judge(outstanding, at.window, response, qp.attributes.path_mtu);
  }
  if (progress.step == RcStep::ignore) {
    mind_ghost(core, qp, packet);
    return;
  }
  if (has_aeth) note_credits(at, packet);
  if (packet.op->operation == Operation::acknowledge && Syndrome(packet.fields.syndrome).is_nak())
    ++core.counters.naks_received;
  Psn through = progress.through;
  if (progress.takes_payload) {
    SendWork& work = at.queue[indices[progress.message]];
    if (const Status status = take_payload(core, qp, work, packet); status != Status::success) {
      fail(core, qp, indices[progress.message], status);
      return;
    }
    through = response.psn + 1;
    if (response.psn != packet.fields.psn) work.answered = work.psns;  // a fault treats it as the last response
  }
  const bool ack = packet.op->operation == Operation::acknowledge && progress.step == RcStep::progress;
  if (ack && core.faults[Fault::ack_completes_too_much]) {
    const std::size_t next = index_of(at, through);
    if (next < at.queue.size()) through = outstanding_of(at.queue[next]).last() + 1;
    believe_answered(at, through - 1);
  }
  if (progress.step != RcStep::wait || !core.faults[Fault::rnr_acknowledges_nothing]) acknowledge(core, qp, through);
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

}  // namespace rdmawire::device
