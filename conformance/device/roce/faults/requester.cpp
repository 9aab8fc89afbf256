/// Faults of the requester.

#include "conformance/device/roce/requester.hpp"

#include <algorithm>

#include "conformance/device/roce/faults/overrides.hpp"
#include "conformance/device/roce/local_memory.hpp"

namespace rdmawire::device {

namespace {

using machines::RcFailure;
using machines::RcProgress;
using machines::RcResponse;
using machines::RcStep;
using machines::ResponsePlace;
using machines::Sending;

bool is_read(const SendWork& work) { return work.request.opcode == WorkOpcode::read; }

bool is_acknowledge(const Opcode& op) { return op.operation == Operation::acknowledge; }

/// Mark all responses up to a PSN as received.
void believe_answered(Requester& at, Psn through) {
  for (SendWork& work : at.queue)
    if (work.started && work.psns != 0 && outstanding_of(work).last() - through <= 0)
      work.answered = outstanding_of(work).answers();
}

/// The part of a READ that a response packet must contain.
struct ReadPart {
  std::uint32_t index = 0;   ///< index of the packet in the response
  std::uint32_t wanted = 0;  ///< required number of payload bytes
  bool last = false;
};

ReadPart part_of(const QueuePair& qp, const SendWork& read, Psn psn) {
  ReadPart part;
  part.index = static_cast<std::uint32_t>(psn - read.first);
  const std::uint64_t from = std::uint64_t{part.index} * qp.attributes.path_mtu;
  part.wanted = static_cast<std::uint32_t>(std::min<std::uint64_t>(read.length - from, qp.attributes.path_mtu));
  part.last = part.index + 1 == read.psns;
  return part;
}

/// True if a packet that is too short ends a READ response before its last packet.
bool ends_early(const ReadPart& part, const Opcode& op, std::size_t payload) {
  return payload < part.wanted && op.ends_message() && !part.last;
}

using JudgeResponse = decltype(RequesterDecisions::judge_response)::Next;

/// Change a response to a READ before it is evaluated.
template <void (*change)(QueuePair&, SendWork& read, const ReadPart&, RcResponse&)>
RcProgress judge_changed(const JudgeResponse& next, QueuePair& qp, const RcResponse& response) {
  RcResponse changed = response;
  const std::size_t index = index_of(qp.requester, response.psn);
  if (index < qp.requester.queue.size() && is_read(qp.requester.queue[index])) {
    SendWork& read = qp.requester.queue[index];
    change(qp, read, part_of(qp, read, response.psn), changed);
  }
  return next(qp, changed);
}

/// Complete the READ with the response of an atomic.
void take_wrong_answer(QueuePair& qp, SendWork& read, const ReadPart& /*part*/, RcResponse& response) {
  if (response.op->operation != Operation::atomic_acknowledge) return;
  read.answered = read.psns;
  response.op = find_opcode(qp.transport(), Operation::acknowledge);
  response.psn = read.first + (read.psns - 1);
  response.syndrome = Syndrome::ack().bits();
}

void take_middle_first(QueuePair& qp, SendWork& /*read*/, const ReadPart& part, RcResponse& response) {
  const Opcode& op = *response.op;
  if (op.operation != Operation::rdma_read_response || op.position != Position::middle || part.index != 0) return;
  response.op = find_opcode(qp.transport(), op.operation, part.last ? Position::only : Position::first);
}

/// Accept a packet that is too short as complete. If it ends the message, accept it as the last packet.
void take_short(QueuePair& qp, SendWork& read, const ReadPart& part, RcResponse& response) {
  const Opcode& op = *response.op;
  if (op.operation != Operation::rdma_read_response || response.payload >= part.wanted) return;
  const bool early = ends_early(part, op, response.payload);
  response.payload = part.wanted;
  if (!early) return;
  read.answered = read.psns - 1;
  response.psn = read.first + read.answered;
  response.op = find_opcode(qp.transport(), op.operation, Position::last);
  response.payload = part_of(qp, read, response.psn).wanted;
}

void take_long(QueuePair& /*qp*/, SendWork& /*read*/, const ReadPart& part, RcResponse& response) {
  if (response.op->operation == Operation::rdma_read_response)
    response.payload = std::min(response.payload, part.wanted);
}

/// True if a packet ends a READ response before its last packet.
bool is_early_end(const ReadPart& part, const Opcode& op) { return op.ends_message() && !part.last; }

void ignore_position(QueuePair& qp, SendWork& read, const ReadPart& part, RcResponse& response) {
  const Opcode& op = *response.op;
  if (op.operation != Operation::rdma_read_response) return;
  if (part.last && !op.ends_message())
    response.op = find_opcode(qp.transport(), op.operation, read.psns == 1 ? Position::only : Position::last);
  if (!is_early_end(part, op)) return;
  read.answered = read.psns - 1;
  response.psn = read.first + read.answered;
  response.op = find_opcode(qp.transport(), op.operation, Position::last);
  response.payload = part_of(qp, read, response.psn).wanted;
}

void ignore_gap(QueuePair& /*qp*/, SendWork& read, const ReadPart& part, RcResponse& response) {
  if (response.op->operation == Operation::rdma_read_response) read.answered = std::max(read.answered, part.index);
}

/// Go back to the PSN of a sequence error NAK although it is not outstanding.
template <ResponsePlace place>
void believe_nak(const decltype(RequesterDecisions::ignore_response)::Next& next, Core& core, QueuePair& qp,
                 const Packet& packet) {
  Requester& at = qp.requester;
  const bool gap = is_acknowledge(*packet.op) && Syndrome(packet.fields.syndrome).is_nak(nak_code::psn_sequence_error);
  if (gap && at.window.place(packet.fields.psn) == place)
    core.decisions.requester.go_back(at, at.window.oldest);
  else
    next(core, qp, packet);
}

/// Make one retry more than the retry count permits.
bool retry_once_more(const decltype(RequesterDecisions::may_retry)::Next& next, Requester& at) {
  if (next(at)) return true;
  return !at.faults.extra_retry && (at.faults.extra_retry = true);
}

void reload_once_more(const decltype(RequesterDecisions::reload_retries)::Next& next, Requester& at) {
  next(at);
  at.faults.extra_retry = false;
}

constexpr FaultOverride requester_rows[] = {
    // Order and limits of requests
    {Fault::newest_request_first,
     [](Decisions& d) {
       d.requester.start.override_with([](const auto& next, Core& core, QueuePair& qp) {
         std::deque<SendWork>& queue = qp.requester.queue;
         std::rotate(queue.begin() + static_cast<std::ptrdiff_t>(qp.requester.at), queue.end() - 1, queue.end());
         return next(core, qp);
       });
     }},
    {Fault::sends_while_drained,
     [](Decisions& d) {
       d.requester.sending.override_with([](const auto& next, const QueuePair& qp) {
         const Sending sending = next(qp);
         return sending == Sending::finish ? Sending::everything : sending;
       });
     }},
    {Fault::sends_giant_messages,
     [](Decisions& d) {
       d.requester.allows_length.override_with([](const auto& /*next*/, std::uint64_t /*bytes*/) { return true; });
     }},
    {Fault::ignores_credits,
     [](Decisions& d) {
       d.requester.has_credit.override_with(
           [](const auto& /*next*/, const Requester& /*at*/, const WireOperation& /*operation*/) { return true; });
     }},
    {Fault::fences_everything,
     [](Decisions& d) {
       d.requester.waits_at_fence.override_with([](const auto& next, const Requester& at, const SendRequest& request) {
         SendRequest fenced = request;
         fenced.fence = true;
         return next(at, fenced);
       });
     }},
    {Fault::ignores_fence,
     [](Decisions& d) {
       d.requester.waits_at_fence.override_with([](const auto& next, const Requester& at, const SendRequest& request) {
         return is_local(request.opcode) && next(at, request);
       });
     }},
    {Fault::ignores_local_fence,
     [](Decisions& d) {
       d.requester.waits_at_fence.override_with([](const auto& next, const Requester& at, const SendRequest& request) {
         return !is_local(request.opcode) && next(at, request);
       });
     }},
    {Fault::one_read_too_many,
     [](Decisions& d) {
       d.requester.most_outstanding.override_with([](const auto& next, const QueuePair& qp) { return next(qp) + 1; });
     }},
    // Packets of requests
    {Fault::half_filled_packets,
     [](Decisions& d) {
       d.requester.payload_per_packet.override_with([](const auto& next, const QueuePair& qp) { return next(qp) / 2; });
     }},
    {Fault::read_takes_one_psn,
     [](Decisions& d) {
       d.requester.psns_of.override_with(
           [](const auto& next, const Core& core, const QueuePair& qp, Operation operation, std::uint32_t bytes) {
             return operation == Operation::rdma_read_request ? 1 : next(core, qp, operation, bytes);
           });
     }},
    {Fault::empty_read_takes_two_psns,
     [](Decisions& d) {
       d.requester.psns_of.override_with(
           [](const auto& next, const Core& core, const QueuePair& qp, Operation operation, std::uint32_t bytes) {
             return operation == Operation::rdma_read_request && bytes == 0 ? 2 : next(core, qp, operation, bytes);
           });
     }},
    {Fault::asks_whole_read_again,
     [](Decisions& d) {
       d.requester.next_packet.override_with([](const auto& next, const Requester& at, const SendWork& work) {
         const std::uint32_t packet = next(at, work);
         return is_read(work) && is_retransmission(at, work, packet) ? 0 : packet;
       });
     }},
    {Fault::retransmits_without_immediate,
     [](Decisions& d) {
       d.requester.opcode.override_with(
           [](const auto& next, const QueuePair& qp, const SendWork& work, std::uint32_t packet) {
             const Opcode* op = next(qp, work, packet);
             if (!op || !is_retransmission(qp.requester, work, packet)) return op;
             return find_opcode(op->transport, op->operation, op->position);
           });
     }},
    {Fault::xrceth_without_number,
     [](Decisions& d) {
       d.requester.fill.override_with(
           [](const auto& next, const QueuePair& qp, const SendWork& work, std::uint32_t packet, PacketFields& to) {
             next(qp, work, packet, to);
             to.xrc_srq = 0;
           });
     }},
    {Fault::never_asks_acknowledge,
     [](Decisions& d) {
       d.requester.requests_acknowledgement.override_with(
           [](const auto& /*next*/, const QueuePair& /*qp*/, const Opcode& /*op*/) { return false; });
     }},
    {Fault::retransmits_other_bytes,
     [](Decisions& d) {
       d.requester.read_payload.override_with([](const auto& next, Core& core, const QueuePair& qp,
                                                 const SendWork& work, std::uint32_t packet,
                                                 std::vector<std::uint8_t>& to) {
         const Status status = next(core, qp, work, packet, to);
         if (!to.empty() && is_retransmission(qp.requester, work, packet)) to[0] ^= 0xff;
         return status;
       });
     }},
    {Fault::hides_unknown_operation,
     [](Decisions& d) {
       d.requester.complete_failed.override_with(
           [](const auto& next, Core& core, QueuePair& qp, const SendRequest& request, Status status) {
             if (status != Status::local_qp_operation) next(core, qp, request, status);
           });
     }},
    // UC and UD
    {Fault::asks_datagrams_acknowledged,
     [](Decisions& d) {
       d.requester.requests_acknowledgement.override_with([](const auto& next, const QueuePair& qp, const Opcode& op) {
         return next(qp, op) || (!qp.is_reliable() && op.ends_message());
       });
     }},
    {Fault::uc_psn_by_message,
     [](Decisions& d) {
       d.requester.psn_of.override_with(
           [](const auto& next, const SendWork& work, std::uint32_t /*packet*/) { return next(work, 0); });
     }},
    {Fault::completes_uc_late,
     [](Decisions& d) {
       d.requester.completes_when_sent.override_with([](const auto& next, const QueuePair& qp) {
         return (qp.options.type != QpType::uc || qp.requester.queue.size() > 1) && next(qp);
       });
     }},
    {Fault::sends_beyond_mtu,
     [](Decisions& d) {
       d.requester.discards_datagram.override_with(
           [](const auto& /*next*/, const Port& /*port*/, std::uint64_t /*bytes*/) { return false; });
     }},
    {Fault::discards_datagrams_of_mtu,
     [](Decisions& d) {
       d.requester.discards_datagram.override_with(
           [](const auto& next, const Port& port, std::uint64_t bytes) { return next(port, bytes + 1); });
     }},
    {Fault::always_own_qkey,
     [](Decisions& d) {
       d.requester.datagram_qkey.override_with([](const auto& /*next*/, const QueuePair& qp,
                                                  const SendRequest& /*request*/) { return qp.attributes.qkey; });
     }},
    {Fault::sends_privileged_qkey,
     [](Decisions& d) {
       d.requester.datagram_qkey.override_with([](const auto& /*next*/, const QueuePair& /*qp*/,
                                                  const SendRequest& request) { return request.remote_qkey; });
     }},
    // Acknowledgements
    {Fault::ack_completes_too_much,
     [](Decisions& d) {
       d.requester.judge_response.override_with([](const auto& next, QueuePair& qp, const RcResponse& response) {
         Requester& at = qp.requester;
         RcProgress progress = next(qp, response);
         if (!is_acknowledge(*response.op) || progress.step != RcStep::progress) return progress;
         const std::size_t further = index_of(at, progress.through);
         if (further < at.queue.size()) progress.through = outstanding_of(at.queue[further]).last() + 1;
         believe_answered(at, progress.through - 1);
         return progress;
       });
     }},
    {Fault::ack_completes_oldest,
     [](Decisions& d) {
       d.requester.judge_response.override_with([](const auto& next, QueuePair& qp, const RcResponse& response) {
         RcProgress progress = next(qp, response);
         if (!is_acknowledge(*response.op) || progress.step != RcStep::progress) return progress;
         for (const SendWork& work : qp.requester.queue) {
           if (!work.started || work.done || work.psns == 0) continue;
           const Psn end = outstanding_of(work).last() + 1;
           if (progress.through - end > 0) progress.through = end;
           break;
         }
         return progress;
       });
     }},
    {Fault::believes_stale_responses,
     [](Decisions& d) {
       d.requester.judge_response.override_with([](const auto& next, QueuePair& qp, const RcResponse& response) {
         const machines::RequesterWindow& window = qp.requester.window;
         RcResponse believed = response;
         if (is_acknowledge(*response.op) && window.outstanding() != 0 &&
             window.place(response.psn) == ResponsePlace::acknowledged)
           believed.psn = window.oldest;
         return next(qp, believed);
       });
     }},
    {Fault::takes_any_response,
     [](Decisions& d) {
       d.requester.judge_response.override_with([](const auto& next, QueuePair& qp, const RcResponse& response) {
         RcResponse accepted = response;
         const std::size_t index = index_of(qp.requester, response.psn);
         if (index == qp.requester.queue.size() || is_acknowledge(*response.op)) return next(qp, accepted);
         const Operation asked = outstanding_of(qp.requester.queue[index]).operation;
         if (asked == Operation::send || asked == Operation::rdma_write)
           accepted.op = find_opcode(qp.transport(), Operation::acknowledge);
         else if (machines::is_atomic(asked))
           accepted.op = find_opcode(qp.transport(), Operation::atomic_acknowledge);
         else
           return next(qp, accepted);
         accepted.syndrome = Syndrome::ack().bits();
         accepted.has_aeth = true;
         accepted.payload = 0;
         return next(qp, accepted);
       });
     }},
    {Fault::ack_completes_reads,
     [](Decisions& d) {
       d.requester.judge_response.override_with([](const auto& next, QueuePair& qp, const RcResponse& response) {
         if (is_acknowledge(*response.op) && Syndrome(response.syndrome).is_ack())
           believe_answered(qp.requester, response.psn);
         return next(qp, response);
       });
     }},
    {Fault::believes_ghost_acks,
     [](Decisions& d) {
       d.requester.judge_response.override_with([](const auto& next, QueuePair& qp, const RcResponse& response) {
         Requester& at = qp.requester;
         RcResponse believed = response;
         if (is_acknowledge(*response.op) && Syndrome(response.syndrome).is_ack() &&
             at.window.place(response.psn) == ResponsePlace::unsent) {
           believed.psn = at.window.next - 1;
           believe_answered(at, believed.psn);
         }
         return next(qp, believed);
       });
     }},
    {Fault::believes_ghost_naks,
     [](Decisions& d) { d.requester.ignore_response.override_with(believe_nak<ResponsePlace::unsent>); }},
    {Fault::believes_stale_naks,
     [](Decisions& d) { d.requester.ignore_response.override_with(believe_nak<ResponsePlace::acknowledged>); }},
    {Fault::takes_reserved_syndrome,
     [](Decisions& d) {
       d.requester.judge_response.override_with([](const auto& next, QueuePair& qp, const RcResponse& response) {
         RcResponse accepted = response;
         if (response.has_aeth && Syndrome(response.syndrome).kind() == syndrome_kind::reserved)
           accepted.syndrome = Syndrome::ack().bits();
         return next(qp, accepted);
       });
     }},
    // Responses to READs
    {Fault::takes_wrong_answers,
     [](Decisions& d) { d.requester.judge_response.override_with(judge_changed<take_wrong_answer>); }},
    {Fault::takes_middle_first,
     [](Decisions& d) { d.requester.judge_response.override_with(judge_changed<take_middle_first>); }},
    {Fault::ignores_response_positions,
     [](Decisions& d) {
       d.requester.judge_response.override_with(judge_changed<ignore_position>);
       d.requester.take_payload.override_with(
           [](const auto& next, Core& core, QueuePair& qp, SendWork& work, const Packet& packet) {
             const bool early = is_read(work) && packet.op->operation == Operation::rdma_read_response &&
                                is_early_end(part_of(qp, work, packet.fields.psn), *packet.op);
             const Status status = next(core, qp, work, packet);
             if (early) work.answered = work.psns;
             return status;
           });
     }},
    {Fault::takes_short_responses,
     [](Decisions& d) {
       d.requester.judge_response.override_with(judge_changed<take_short>);
       d.requester.take_payload.override_with(
           [](const auto& next, Core& core, QueuePair& qp, SendWork& work, const Packet& packet) {
             const bool early =
                 is_read(work) && ends_early(part_of(qp, work, packet.fields.psn), *packet.op, packet.payload.size());
             const Status status = next(core, qp, work, packet);
             if (early) work.answered = work.psns;
             return status;
           });
     }},
    {Fault::takes_long_responses,
     [](Decisions& d) {
       d.requester.judge_response.override_with(judge_changed<take_long>);
       d.requester.take_payload.override_with(
           [](const auto& next, Core& core, QueuePair& qp, SendWork& work, const Packet& packet) {
             Packet cut = packet;
             if (is_read(work)) {
               const std::uint64_t index = part_of(qp, work, packet.fields.psn).index;
               const std::uint64_t left = work.length - index * qp.attributes.path_mtu;
               cut.payload = packet.payload.first(std::min<std::uint64_t>(packet.payload.size(), left));
             }
             return next(core, qp, work, cut);
           });
     }},
    {Fault::ignores_response_gap,
     [](Decisions& d) { d.requester.judge_response.override_with(judge_changed<ignore_gap>); }},
    {Fault::skips_missing_reads,
     [](Decisions& d) {
       d.requester.judge_response.override_with([](const auto& next, QueuePair& qp, const RcResponse& response) {
         const RcProgress progress = next(qp, response);
         if (!progress.implied) return progress;
         believe_answered(qp.requester, response.psn - 1);
         return next(qp, response);
       });
     }},
    {Fault::places_duplicate_responses,
     [](Decisions& d) {
       d.requester.ignore_response.override_with([](const auto& next, Core& core, QueuePair& qp, const Packet& packet) {
         next(core, qp, packet);
         const Requester& at = qp.requester;
         const std::size_t index = index_of(at, packet.fields.psn);
         if (packet.op->operation != Operation::rdma_read_response || index == at.queue.size() ||
             !is_read(at.queue[index]))
           return;
         const SendWork& read = at.queue[index];
         const std::uint64_t part = part_of(qp, read, packet.fields.psn).index;
         (void)scatter(core.memory, qp.options.pd, read.request.sges, part * qp.attributes.path_mtu, packet.payload);
       });
     }},
    // Failures
    {Fault::ignores_reserved_naks,
     [](Decisions& d) {
       d.requester.fail_request.override_with(
           [](const auto& next, Core& core, QueuePair& qp, const Packet& packet, const RcProgress& progress) {
             const bool reserved = Syndrome(packet.fields.syndrome).code() > nak_code::remote_operational_error;
             if (!is_acknowledge(*packet.op) || !reserved) next(core, qp, packet, progress);
           });
     }},
    {Fault::retries_access_errors,
     [](Decisions& d) {
       d.requester.fail_request.override_with(
           [](const auto& next, Core& core, QueuePair& qp, const Packet& packet, const RcProgress& progress) {
             Requester& at = qp.requester;
             const std::size_t index = index_of(at, progress.restart);
             const bool partly_answered = index < at.queue.size() && at.queue[index].answered != 0;
             if (progress.failure == RcFailure::remote_access && partly_answered)
               core.decisions.requester.go_back(at, progress.restart);
             else
               next(core, qp, packet, progress);
           });
     }},
    {Fault::wrong_status_of_nak,
     [](Decisions& d) {
       d.requester.failure_status.override_with([](const auto& next, const Packet& packet, RcFailure failure) {
         const Status status = next(packet, failure);
         if (!is_acknowledge(*packet.op)) return status;
         return status == Status::remote_operation ? Status::remote_access : Status::remote_operation;
       });
     }},
    // Recoveries
    {Fault::restarts_behind_nak,
     [](Decisions& d) {
       d.requester.restart_psn.override_with([](const auto& next, const RcProgress& progress) {
         return progress.implied ? next(progress) : next(progress) + 1;
       });
     }},
    {Fault::retry_does_not_wrap,
     [](Decisions& d) {
       d.requester.go_back.override_with([](const auto& next, Requester& at, Psn psn) {
         next(at, psn.value() > at.window.next.value() ? Psn(0) : psn);
       });
     }},
    {Fault::retries_for_every_nak,
     [](Decisions& d) {
       d.requester.recovers_already.override_with(
           [](const auto& /*next*/, const Requester& /*at*/, Psn /*psn*/) { return false; });
     }},
    {Fault::selective_repeat,
     [](Decisions& d) {
       d.requester.recover.override_with([](const auto& next, Core& core, QueuePair& qp, const RcProgress& progress) {
         Requester& at = qp.requester;
         const std::pair before(at.at, at.packet);
         const bool starts = !core.decisions.requester.recovers_already(at, progress.restart);
         next(core, qp, progress);
         if (starts && !progress.implied && qp.sends()) at.faults.resume = before;
       });
       d.requester.go_back.override_with([](const auto& next, Requester& at, Psn psn) {
         at.faults.resume.reset();
         next(at, psn);
       });
       d.requester.move_cursor.override_with(
           [](const auto& next, Requester& at, const SendWork& work, std::uint32_t psns) {
             next(at, work, psns);
             if (at.faults.resume) std::tie(at.at, at.packet) = *at.faults.resume;
             at.faults.resume.reset();
           });
       d.requester.remove_oldest.override_with([](const auto& next, Requester& at) {
         at.faults.resume.reset();
         return next(at);
       });
     }},
    // Timers and retry counters
    {Fault::impatient_timer,
     [](Decisions& d) {
       d.requester.transport_timeout.override_with([](const auto& next, const QueuePair& qp) { return next(qp) / 4; });
     }},
    {Fault::slow_timer,
     [](Decisions& d) {
       d.requester.transport_timeout.override_with(
           [](const auto& next, const QueuePair& qp) { return next(qp) / 2 * 5; });
     }},
    {Fault::timer_despite_zero,
     [](Decisions& d) {
       d.requester.transport_timeout.override_with([](const auto& next, const QueuePair& qp) {
         constexpr std::uint8_t code = 14;
         return qp.attributes.timeout == 0 ? machines::ack_timeout_ns(code) * 2 : next(qp);
       });
     }},
    {Fault::impatient_rnr,
     [](Decisions& d) {
       d.requester.rnr_wait.override_with([](const auto& next, Syndrome syndrome) { return next(syndrome) / 2; });
     }},
    {Fault::rnr_acknowledges_nothing,
     [](Decisions& d) {
       d.requester.judge_response.override_with([](const auto& next, QueuePair& qp, const RcResponse& response) {
         RcProgress progress = next(qp, response);
         if (progress.step == RcStep::wait) progress.through = progress.restart = qp.requester.window.oldest;
         return progress;
       });
     }},
    {Fault::one_retry_more,
     [](Decisions& d) {
       d.requester.may_retry.override_with(retry_once_more);
       d.requester.reload_retries.override_with(reload_once_more);
     }},
    {Fault::one_rnr_retry_more,
     [](Decisions& d) {
       d.requester.may_retry_after_rnr.override_with(retry_once_more);
       d.requester.reload_retries.override_with(reload_once_more);
     }},
    {Fault::seven_rnr_retries,
     [](Decisions& d) {
       d.requester.may_retry_after_rnr.override_with([](const auto& next, Requester& at) {
         if (at.retries.rnr != machines::RcRetries::without_limit) return next(at);
         return at.retries.rnr_left != 0 && (--at.retries.rnr_left, true);
       });
     }},
    {Fault::never_reloads_retries,
     [](Decisions& d) { d.requester.reload_retries.override_with([](const auto& /*next*/, Requester& /*at*/) {}); }},
};

}  // namespace

std::span<const FaultOverride> requester_overrides() { return requester_rows; }

}  // namespace rdmawire::device
