/// Faults of the responder of reliable connections.

#include "conformance/device/roce/responder.hpp"

#include <algorithm>

#include "conformance/device/roce/core.hpp"
#include "conformance/device/roce/faults/overrides.hpp"

namespace rdmawire::device {

namespace {

using machines::InvalidRequest;
using machines::RcReaction;
using machines::RcRequest;
using machines::RequestPlace;

bool is_invalid(const Decision& decision, InvalidRequest invalid) {
  return decision.rc.reaction == RcReaction::nak_invalid && decision.rc.invalid == invalid;
}

/// Kinds of an invalid packet sequence.
enum class WrongSequence : std::uint8_t { begins_in_middle, operations_mixed, answered_in_message, not_ended };

bool is_wrong_sequence(const QueuePair& qp, const RcRequest& request, const Decision& decision, WrongSequence wrong) {
  if (!is_invalid(decision, InvalidRequest::sequence)) return false;
  if (!qp.responder.state.sequence.inside) return wrong == WrongSequence::begins_in_middle;
  if (!request.op->begins_message()) return wrong == WrongSequence::operations_mixed;
  return wrong == (machines::keeps_answer(request.op->operation) ? WrongSequence::answered_in_message
                                                                 : WrongSequence::not_ended);
}

/// True if the payload length is wrong for the packet's position in its message, regardless of the receive buffer.
bool is_wrong_payload(const QueuePair& qp, const RcRequest& request, const Decision& decision) {
  return is_invalid(decision, InvalidRequest::payload) &&
         !machines::fits(*request.op, request.payload, qp.attributes.path_mtu);
}

using Judge = decltype(ResponderDecisions::judge)::Next;

/// Execute a request that is invalid for the given reason.
template <InvalidRequest invalid>
Decision execute_invalid(const Judge& next, Core& core, QueuePair& qp, const Packet& packet, const RcRequest& request) {
  Decision decision = next(core, qp, packet, request);
  if (is_invalid(decision, invalid)) decision.rc.reaction = RcReaction::execute;
  return decision;
}

/// Drop a duplicate of an operation whose response is stored.
template <Operation operation>
Decision drop_duplicate(const Judge& next, Core& core, QueuePair& qp, const Packet& packet, const RcRequest& request) {
  Decision decision = next(core, qp, packet, request);
  if (decision.rc.reaction == RcReaction::answer_again && request.op->operation == operation)
    decision.rc.reaction = RcReaction::drop;
  return decision;
}

using React = decltype(ResponderDecisions::react)::Next;

/// Acknowledge a request that is invalid for the given reason, without executing it.
template <InvalidRequest invalid>
void acknowledge_invalid(const React& next, Core& core, QueuePair& qp, const Packet& packet, const RcRequest& request,
                         const Decision& decision) {
  if (is_invalid(decision, invalid))
    conclude(core, qp, request, 0);
  else
    next(core, qp, packet, request, decision);
}

template <WrongSequence wrong>
void acknowledge_sequence(const React& next, Core& core, QueuePair& qp, const Packet& packet, const RcRequest& request,
                          const Decision& decision) {
  if (is_wrong_sequence(qp, request, decision, wrong))
    conclude(core, qp, request, 0);
  else
    next(core, qp, packet, request, decision);
}

/// Acknowledge a packet whose payload length is wrong for its position. `position` returns true for affected positions.
template <bool (*position)(Position)>
void acknowledge_payload(const React& next, Core& core, QueuePair& qp, const Packet& packet, const RcRequest& request,
                         const Decision& decision) {
  if (is_wrong_payload(qp, request, decision) && position(request.op->position))
    conclude(core, qp, request, 0);
  else
    next(core, qp, packet, request, decision);
}

bool is_only(Position position) { return position == Position::only; }
bool is_last(Position position) { return position == Position::last; }
bool is_first_or_middle(Position position) { return !is_only(position) && !is_last(position); }

/// Return the index of the stored response whose PSNs include that of a duplicate.
std::optional<std::uint8_t> kept_answer(const QueuePair& qp, const RcRequest& request) {
  const machines::RcResponder& at = qp.responder.state;
  constexpr std::size_t places = machines::RcResponder::most_answers;
  for (std::size_t n = 0; n < qp.attributes.max_dest_rd_atomic; ++n) {
    const std::size_t i = (at.newest + places - n) % places;
    const machines::RcAnswer& kept = at.answers[i];
    const std::int32_t into = request.psn - kept.psn;
    if (kept.psns != 0 && kept.operation == request.op->operation && into >= 0 &&
        into < static_cast<std::int32_t>(kept.psns))
      return static_cast<std::uint8_t>(i);
  }
  return std::nullopt;
}

/// True if the request is a dropped duplicate of an operation with stored responses.
bool is_dropped_duplicate(const QueuePair& qp, const RcRequest& request, const Decision& decision) {
  return qp.responder.state.window.place(request.psn) == RequestPlace::duplicate &&
         decision.rc.reaction == RcReaction::drop && request.op->known && machines::keeps_answer(request.op->operation);
}

/// Execute a duplicate of the given operation again.
template <bool (*affected)(Operation)>
void execute_duplicate(const decltype(ResponderDecisions::apply_duplicate)::Next& next, Core& core, QueuePair& qp,
                       const Packet& packet, const RcRequest& request, machines::RcAnswer* kept) {
  next(core, qp, packet, request, kept);
  if (kept && affected(request.op->operation)) kept->original = change_memory(core, qp, packet, request);
}

bool is_atomic_write(Operation operation) { return operation == Operation::atomic_write; }

bool is_empty_reth(const RcRequest& request) {
  const Operation operation = request.op->operation;
  return request.op->begins_message() && request.length == 0 &&
         (operation == Operation::rdma_write || operation == Operation::rdma_read_request);
}

constexpr FaultOverride responder_rows[] = {
    // Packet sequence and opcodes
    {Fault::ignores_reserved_opcodes,
     [](Decisions& d) {
       d.responder.judge.override_with(
           [](const auto& next, Core& core, QueuePair& qp, const Packet& packet, const RcRequest& request) {
             Decision decision = next(core, qp, packet, request);
             if (is_invalid(decision, InvalidRequest::opcode) && !request.op->known)
               decision.rc.reaction = RcReaction::drop;
             return decision;
           });
     }},
    {Fault::accepts_middle_first,
     [](Decisions& d) { d.responder.react.override_with(acknowledge_sequence<WrongSequence::begins_in_middle>); }},
    {Fault::accepts_unended_message,
     [](Decisions& d) { d.responder.react.override_with(acknowledge_sequence<WrongSequence::not_ended>); }},
    {Fault::accepts_mixed_operations,
     [](Decisions& d) { d.responder.react.override_with(acknowledge_sequence<WrongSequence::operations_mixed>); }},
    {Fault::accepts_read_in_message,
     [](Decisions& d) {
       d.responder.judge.override_with(
           [](const auto& next, Core& core, QueuePair& qp, const Packet& packet, const RcRequest& request) {
             Decision decision = next(core, qp, packet, request);
             if (is_wrong_sequence(qp, request, decision, WrongSequence::answered_in_message))
               decision.rc.reaction = RcReaction::execute;
             return decision;
           });
     }},
    // Lengths
    {Fault::accepts_short_first,
     [](Decisions& d) { d.responder.react.override_with(acknowledge_payload<is_first_or_middle>); }},
    {Fault::accepts_long_only, [](Decisions& d) { d.responder.react.override_with(acknowledge_payload<is_only>); }},
    {Fault::accepts_empty_last, [](Decisions& d) { d.responder.react.override_with(acknowledge_payload<is_last>); }},
    {Fault::accepts_wrong_write_total,
     [](Decisions& d) { d.responder.react.override_with(acknowledge_invalid<InvalidRequest::message_length>); }},
    {Fault::accepts_giant_lengths,
     [](Decisions& d) { d.responder.react.override_with(acknowledge_invalid<InvalidRequest::message_too_long>); }},
    {Fault::accepts_any_atomic_write,
     [](Decisions& d) { d.responder.react.override_with(acknowledge_invalid<InvalidRequest::atomic_write_size>); }},
    {Fault::truncates_long_sends,
     [](Decisions& d) {
       d.responder.judge.override_with(
           [](const auto& next, Core& core, QueuePair& qp, const Packet& packet, const RcRequest& request) {
             Decision decision = next(core, qp, packet, request);
             if (is_invalid(decision, InvalidRequest::payload) && !is_wrong_payload(qp, request, decision))
               decision.rc.reaction = RcReaction::execute;
             return decision;
           });
       d.responder.placed_payload.override_with([](const auto& next, const Responder& at, Bytes payload) {
         const std::uint64_t capacity = at.receive->bytes();
         const std::uint64_t left = capacity - std::min(capacity, at.written);
         return next(at, payload.first(std::min<std::uint64_t>(left, payload.size())));
       });
     }},
    // Access
    {Fault::checks_empty_access,
     [](Decisions& d) {
       d.responder.judge.override_with(
           [](const auto& next, Core& core, QueuePair& qp, const Packet& packet, const RcRequest& request) {
             Decision decision = next(core, qp, packet, request);
             const std::uint32_t rights = core.decisions.responder.rights_for(request);
             if (decision.rc.reaction == RcReaction::execute && is_empty_reth(request) &&
                 !core.memory.remote({qp.responder.pd, qp.qpn}, request.rkey, request.va, 1, rights)) {
               decision.rc.reaction = RcReaction::nak_access;
               decision.nak = nak_code::remote_access_error;
             }
             return decision;
           });
     }},
    {Fault::unknown_key_invalid_request,
     [](Decisions& d) {
       d.responder.judge.override_with(
           [](const auto& next, Core& core, QueuePair& qp, const Packet& packet, const RcRequest& request) {
             Decision decision = next(core, qp, packet, request);
             if (decision.rc.reaction == RcReaction::nak_access && !core.memory.knows(request.rkey))
               decision.nak = nak_code::invalid_request;
             return decision;
           });
     }},
    {Fault::known_key_invalid_request,
     [](Decisions& d) {
       d.responder.judge.override_with(
           [](const auto& next, Core& core, QueuePair& qp, const Packet& packet, const RcRequest& request) {
             Decision decision = next(core, qp, packet, request);
             if (decision.rc.reaction == RcReaction::nak_access && core.memory.knows(request.rkey))
               decision.nak = nak_code::invalid_request;
             return decision;
           });
     }},
    {Fault::ignores_queue_pair_rights,
     [](Decisions& d) {
       d.responder.settings.override_with([](const auto& next, const QueuePair& qp) {
         machines::RcResponderSettings settings = next(qp);
         settings.writes = settings.reads = settings.atomics = true;
         settings.flush_global = settings.flush_persistent = true;
         return settings;
       });
     }},
    {Fault::grants_any_placement,
     [](Decisions& d) {
       d.responder.settings.override_with([](const auto& next, const QueuePair& qp) {
         machines::RcResponderSettings settings = next(qp);
         settings.flush_global = settings.flush_persistent = true;
         return settings;
       });
       d.responder.rights_for.override_with([](const auto& next, const RcRequest& request) {
         return request.op->operation == Operation::flush ? 0U : next(request);
       });
     }},
    {Fault::checks_range_of_region_flush,
     [](Decisions& d) {
       d.responder.checks_range.override_with([](const auto& /*next*/, const RcRequest& /*request*/) { return true; });
     }},
    {Fault::takes_any_srq,
     [](Decisions& d) {
       d.responder.may_use.override_with(
           [](const auto& /*next*/, const QueuePair& /*qp*/, const SharedReceiveQueue& /*srq*/) { return true; });
     }},
    // Rejections
    {Fault::no_event_for_access_error,
     [](Decisions& d) {
       d.responder.raise_rejection.override_with(
           [](const auto& next, Core& core, const QueuePair& qp, std::uint8_t code) {
             if (code != nak_code::remote_access_error) next(core, qp, code);
           });
     }},
    {Fault::no_error_completion,
     [](Decisions& d) {
       d.responder.complete_rejected.override_with([](const auto& next, Core& core, QueuePair& qp,
                                                      const ReceiveRequest& request,
                                                      Status /*status*/) { next(core, qp, request, Status::flushed); });
     }},
    {Fault::error_uses_all_receives,
     [](Decisions& d) {
       d.responder.complete_rejected.override_with(
           [](const auto& next, Core& core, QueuePair& qp, const ReceiveRequest& request, Status status) {
             next(core, qp, request, status);
             while (!qp.receives.empty()) {
               const ReceiveRequest further = std::move(qp.receives.front());
               qp.receives.pop_front();
               next(core, qp, further, status);
             }
           });
     }},
    {Fault::no_nak_without_receive,
     [](Decisions& d) {
       d.responder.send_rejection.override_with(
           [](const auto& next, Core& core, QueuePair& qp, const Packet& packet, std::uint8_t code) {
             if (packet.op->known && machines::takes_receive(*packet.op))
               next(core, qp, packet, code);
             else
               enter_error(core, qp);
           });
     }},
    {Fault::nak_of_atomic_is_atomic,
     [](Decisions& d) {
       d.responder.rejection.override_with([](const auto& next, const Packet& packet, std::uint8_t code) {
         Response nak = next(packet, code);
         if (packet.op->known && machines::is_atomic(packet.op->operation)) nak.kind = Response::Kind::atomic;
         return nak;
       });
     }},
    // Receives
    {Fault::no_rnr_nak,
     [](Decisions& d) {
       d.responder.judge.override_with(
           [](const auto& next, Core& core, QueuePair& qp, const Packet& packet, const RcRequest& request) {
             Decision decision = next(core, qp, packet, request);
             if (decision.rc.reaction == RcReaction::rnr_nak) decision.rc.reaction = RcReaction::drop;
             return decision;
           });
     }},
    {Fault::rnr_timer_zero,
     [](Decisions& d) {
       d.responder.rnr_timer.override_with([](const auto& /*next*/, const QueuePair& /*qp*/) { return 0U; });
     }},
    {Fault::rnr_eats_message,
     [](Decisions& d) {
       d.responder.report_not_ready.override_with(
           [](const auto& next, Core& core, QueuePair& qp, const RcRequest& request) {
             next(core, qp, request);
             core.decisions.responder.advance(qp, request, 0);
           });
     }},
    {Fault::write_immediate_without_length,
     [](Decisions& d) {
       d.responder.receive_completion.override_with(
           [](const auto& next, const QueuePair& qp, const Packet& packet, std::uint64_t bytes) {
             return next(qp, packet, packet.op->operation == Operation::send ? bytes : 0);
           });
     }},
    {Fault::xrc_loses_source,
     [](Decisions& d) {
       d.responder.receive_completion.override_with(
           [](const auto& next, const QueuePair& qp, const Packet& packet, std::uint64_t bytes) {
             Completion completion = next(qp, packet, bytes);
             if (qp.options.type == QpType::xrc_target) completion.source_qpn = 0;
             return completion;
           });
     }},
    {Fault::ignores_solicited,
     [](Decisions& d) {
       d.responder.is_solicited.override_with([](const auto& /*next*/, const Packet& /*packet*/) { return false; });
     }},
    {Fault::solicits_every_message,
     [](Decisions& d) {
       d.responder.is_solicited.override_with([](const auto& /*next*/, const Packet& /*packet*/) { return true; });
     }},
    {Fault::writes_use_receives,
     [](Decisions& d) {
       d.responder.advance.override_with(
           [](const auto& next, QueuePair& qp, const RcRequest& request, std::uint64_t original) {
             next(qp, request, original);
             const bool takes_none = request.op->ends_message() && !machines::takes_receive(*request.op);
             if (takes_none && !qp.receives.empty()) qp.receives.pop_front();
           });
     }},
    {Fault::credits_come_and_go,
     [](Decisions& d) {
       d.responder.credits.override_with([](const auto& next, const Core& core, QueuePair& qp) {
         constexpr std::uint8_t not_used = 31;
         const std::uint8_t code = next(core, qp);
         if (code == not_used) return code;
         return qp.responder.faults.acknowledgements++ % 2 == 1 ? not_used : code;
       });
     }},
    // Acknowledgements
    {Fault::never_acknowledges,
     [](Decisions& d) {
       d.responder.acknowledge.override_with(
           [](const auto& /*next*/, Core& /*core*/, QueuePair& /*qp*/, const RcRequest& /*request*/) {});
     }},
    {Fault::acknowledges_only_asked,
     [](Decisions& d) {
       d.responder.acknowledge.override_with([](const auto& next, Core& core, QueuePair& qp, const RcRequest& request) {
         std::optional<Psn>& unasked = qp.responder.faults.unasked;
         RcRequest acknowledged = request;
         if (!request.wants_acknowledge)
           unasked = request.psn;
         else if (unasked && *unasked + 1 == request.psn)
           acknowledged.psn = *unasked;
         next(core, qp, acknowledged);
       });
     }},
    {Fault::acknowledges_twice,
     [](Decisions& d) {
       d.responder.send_acknowledgement.override_with(
           [](const auto& next, Core& core, QueuePair& qp, Response response) {
             next(core, qp, response);
             next(core, qp, response);
           });
     }},
    {Fault::msn_counts_packets,
     [](Decisions& d) {
       d.responder.advance.override_with(
           [](const auto& next, QueuePair& qp, const RcRequest& request, std::uint64_t original) {
             next(qp, request, original);
             if (!request.op->ends_message()) qp.responder.state.msn += 1;
           });
     }},
    {Fault::msn_late_in_read_response,
     [](Decisions& d) {
       d.responder.read_response_msn.override_with([](const auto& next, const Responder& at) { return next(at) - 1; });
     }},
    {Fault::msn_counts_duplicates,
     [](Decisions& d) {
       d.responder.apply_duplicate.override_with([](const auto& next, Core& core, QueuePair& qp, const Packet& packet,
                                                    const RcRequest& request, machines::RcAnswer* kept) {
         qp.responder.state.msn += 1;
         next(core, qp, packet, request, kept);
       });
     }},
    // Gaps and PSNs
    {Fault::naks_every_packet,
     [](Decisions& d) {
       d.responder.judge.override_with(
           [](const auto& next, Core& core, QueuePair& qp, const Packet& packet, const RcRequest& request) {
             Decision decision = next(core, qp, packet, request);
             if (qp.responder.state.window.place(request.psn) == RequestPlace::ahead)
               decision.rc.reaction = RcReaction::nak_sequence;
             return decision;
           });
     }},
    {Fault::nak_has_received_psn,
     [](Decisions& d) {
       d.responder.gap_psn.override_with(
           [](const auto& /*next*/, const Responder& /*at*/, const RcRequest& request) { return request.psn; });
     }},
    {Fault::naks_first_gap_alone,
     [](Decisions& d) {
       d.responder.report_gap.override_with(
           [](const auto& next, Core& core, QueuePair& qp, const Packet& packet, const RcRequest& request) {
             if (!qp.responder.faults.reported_gap) next(core, qp, packet, request);
             qp.responder.faults.reported_gap = true;
           });
     }},
    {Fault::psn_does_not_wrap,
     [](Decisions& d) {
       d.responder.judge.override_with(
           [](const auto& next, Core& core, QueuePair& qp, const Packet& packet, const RcRequest& request) {
             Decision decision = next(core, qp, packet, request);
             const machines::RcResponder& at = qp.responder.state;
             if (at.window.place(request.psn) == RequestPlace::expected && request.psn.value() == 0)
               decision.rc.reaction = at.nak_sent ? RcReaction::drop : RcReaction::nak_sequence;
             return decision;
           });
     }},
    {Fault::nak_eats_receive,
     [](Decisions& d) {
       d.responder.report_gap.override_with(
           [](const auto& next, Core& core, QueuePair& qp, const Packet& packet, const RcRequest& request) {
             next(core, qp, packet, request);
             if (!qp.receives.empty()) qp.receives.pop_front();
           });
     }},
    {Fault::cnp_for_loss,
     [](Decisions& d) {
       d.responder.report_gap.override_with(
           [](const auto& next, Core& core, QueuePair& qp, const Packet& packet, const RcRequest& request) {
             next(core, qp, packet, request);
             notify(core, qp, packet);
           });
     }},
    // Duplicates
    {Fault::duplicates_end_early,
     [](Decisions& d) {
       d.responder.judge.override_with(
           [](const auto& next, Core& core, QueuePair& qp, const Packet& packet, const RcRequest& request) {
             Decision decision = next(core, qp, packet, request);
             const machines::ResponderWindow& window = qp.responder.state.window;
             if (window.place(request.psn) == RequestPlace::duplicate && request.psn - window.expected < -(1 << 22))
               decision.rc.reaction = RcReaction::nak_sequence;
             return decision;
           });
     }},
    {Fault::executes_duplicates,
     [](Decisions& d) {
       d.responder.apply_duplicate.override_with([](const auto& next, Core& core, QueuePair& qp, const Packet& packet,
                                                    const RcRequest& request, machines::RcAnswer* kept) {
         next(core, qp, packet, request, kept);
         if (request.op->operation == Operation::rdma_write && request.op->begins_message())
           change_memory(core, qp, packet, request);
       });
     }},
    {Fault::executes_duplicate_sends,
     [](Decisions& d) {
       d.responder.apply_duplicate.override_with([](const auto& next, Core& core, QueuePair& qp, const Packet& packet,
                                                    const RcRequest& request, machines::RcAnswer* kept) {
         next(core, qp, packet, request, kept);
         if (request.op->operation != Operation::send) return;
         Responder& at = qp.responder;
         if (!request.op->begins_message() && at.receive) at.written += request.payload;
         if (!request.op->begins_message() || !request.op->ends_message() || qp.receives.empty()) return;
         const ReceiveRequest receive = std::move(qp.receives.front());
         qp.receives.pop_front();
         complete_receive(core, qp, receive, core.decisions.responder.receive_completion(qp, packet, request.payload),
                          false);
       });
     }},
    {Fault::acknowledges_duplicates_psn,
     [](Decisions& d) {
       d.responder.duplicate_psn.override_with(
           [](const auto& /*next*/, const Responder& /*at*/, const RcRequest& request) { return request.psn; });
     }},
    {Fault::ignores_duplicate_reads,
     [](Decisions& d) { d.responder.judge.override_with(drop_duplicate<Operation::rdma_read_request>); }},
    {Fault::ignores_duplicate_flush,
     [](Decisions& d) { d.responder.judge.override_with(drop_duplicate<Operation::flush>); }},
    {Fault::replays_whole_reads,
     [](Decisions& d) {
       d.responder.replayed_part.override_with(
           [](const auto& next, const RcRequest& request, const machines::RcAnswer& kept) {
             RcRequest part = next(request, kept);
             if (kept.operation == Operation::rdma_read_request) {
               part.psn = kept.psn;
               part.va = kept.va;
               part.length = kept.length;
             }
             return part;
           });
     }},
    {Fault::duplicate_read_ends_message,
     [](Decisions& d) {
       d.responder.apply_duplicate.override_with([](const auto& next, Core& core, QueuePair& qp, const Packet& packet,
                                                    const RcRequest& request, machines::RcAnswer* kept) {
         next(core, qp, packet, request, kept);
         if (kept && kept->operation == Operation::rdma_read_request) qp.responder.state.sequence.inside = false;
       });
     }},
    {Fault::replays_reads_anywhere,
     [](Decisions& d) {
       d.responder.judge.override_with(
           [](const auto& next, Core& core, QueuePair& qp, const Packet& packet, const RcRequest& request) {
             Decision decision = next(core, qp, packet, request);
             if (!is_dropped_duplicate(qp, request, decision) || request.op->operation != Operation::rdma_read_request)
               return decision;
             if (const auto kept = kept_answer(qp, request)) {
               decision.rc.reaction = RcReaction::answer_again;
               decision.rc.answer = *kept;
             }
             return decision;
           });
     }},
    {Fault::acknowledges_forgotten,
     [](Decisions& d) {
       d.responder.judge.override_with(
           [](const auto& next, Core& core, QueuePair& qp, const Packet& packet, const RcRequest& request) {
             Decision decision = next(core, qp, packet, request);
             if (is_dropped_duplicate(qp, request, decision) && !kept_answer(qp, request))
               decision.rc.reaction = RcReaction::acknowledge_again;
             return decision;
           });
     }},
    {Fault::executes_duplicate_atomics,
     [](Decisions& d) { d.responder.apply_duplicate.override_with(execute_duplicate<machines::is_atomic>); }},
    {Fault::executes_duplicate_atomic_write,
     [](Decisions& d) { d.responder.apply_duplicate.override_with(execute_duplicate<is_atomic_write>); }},
    {Fault::minds_duplicate_operands,
     [](Decisions& d) {
       d.responder.advance.override_with(
           [](const auto& next, QueuePair& qp, const RcRequest& request, std::uint64_t original) {
             next(qp, request, original);
             Responder& at = qp.responder;
             if (machines::is_atomic(request.op->operation))
               at.faults.operands[at.state.newest] = {request.swap_or_add, request.compare};
           });
       d.responder.apply_duplicate.override_with([](const auto& next, Core& core, QueuePair& qp, const Packet& packet,
                                                    const RcRequest& request, machines::RcAnswer* kept) {
         next(core, qp, packet, request, kept);
         if (!kept || !machines::is_atomic(request.op->operation)) return;
         const auto place = static_cast<std::uint8_t>(kept - qp.responder.state.answers.data());
         const auto first = qp.responder.faults.operands.find(place);
         if (first != qp.responder.faults.operands.end() &&
             first->second != std::pair(request.swap_or_add, request.compare))
           kept->original = change_memory(core, qp, packet, request);
       });
     }},
    // Atomics
    {Fault::executes_misaligned_atomics,
     [](Decisions& d) {
       d.responder.judge.override_with(
           [](const auto& next, Core& core, QueuePair& qp, const Packet& packet, const RcRequest& request) {
             if (request.op->operation == Operation::atomic_write) return next(core, qp, packet, request);
             return execute_invalid<InvalidRequest::misaligned>(next, core, qp, packet, request);
           });
     }},
    {Fault::accepts_misaligned_atomic_write,
     [](Decisions& d) {
       d.responder.judge.override_with(
           [](const auto& next, Core& core, QueuePair& qp, const Packet& packet, const RcRequest& request) {
             if (request.op->operation != Operation::atomic_write) return next(core, qp, packet, request);
             return execute_invalid<InvalidRequest::misaligned>(next, core, qp, packet, request);
           });
     }},
    {Fault::atomic_returns_new_value,
     [](Decisions& d) {
       d.responder.operate.override_with([](const auto& next, MutableBytes bytes, const RcRequest& request) {
         next(bytes, request);
         return load_le(bytes.data(), 8);
       });
     }},
    {Fault::swaps_unequal,
     [](Decisions& d) {
       d.responder.operate.override_with([](const auto& next, MutableBytes bytes, const RcRequest& request) {
         const std::uint64_t original = next(bytes, request);
         if (request.op->operation == Operation::compare_swap) store_le(bytes.data(), 8, request.swap_or_add);
         return original;
       });
     }},
    {Fault::serves_atomics_at_depth_zero,
     [](Decisions& d) {
       d.responder.settings.override_with([](const auto& next, const QueuePair& qp) {
         machines::RcResponderSettings settings = next(qp);
         settings.reads_at_once = std::max(settings.reads_at_once, 1U);
         return settings;
       });
     }},
    {Fault::xrc_without_atomics,
     [](Decisions& d) {
       d.responder.settings.override_with([](const auto& next, const QueuePair& qp) {
         machines::RcResponderSettings settings = next(qp);
         if (qp.transport() == Transport::xrc) settings.has_atomics = false;
         return settings;
       });
     }},
    // READs and the order of responses
    {Fault::drops_reads_beyond_depth,
     [](Decisions& d) {
       d.responder.judge.override_with(
           [](const auto& next, Core& core, QueuePair& qp, const Packet& packet, const RcRequest& request) {
             Decision decision = next(core, qp, packet, request);
             const auto reads = std::ranges::count(qp.responder.answers, Response::Kind::read, &Response::kind);
             if (decision.rc.reaction == RcReaction::execute && request.op->operation == Operation::rdma_read_request &&
                 static_cast<std::uint32_t>(reads) >= qp.attributes.max_dest_rd_atomic)
               decision.rc.reaction = RcReaction::drop;
             return decision;
           });
     }},
    {Fault::answers_newest_first,
     [](Decisions& d) {
       d.responder.place_of.override_with([](const auto& /*next*/, const std::deque<Response>& /*answers*/,
                                             const Response& /*response*/) { return std::size_t{0}; });
     }},
    {Fault::acknowledges_before_reads,
     [](Decisions& d) {
       d.responder.place_of.override_with(
           [](const auto& next, const std::deque<Response>& answers, const Response& response) {
             return response.kind == Response::Kind::acknowledge ? 0 : next(answers, response);
           });
     }},
    {Fault::later_read_first,
     [](Decisions& d) {
       d.responder.place_of.override_with([](const auto& /*next*/, const std::deque<Response>& answers,
                                             const Response& /*response*/) { return answers.size(); });
     }},
    {Fault::aeth_in_middle,
     [](Decisions& d) {
       d.responder.next_of_read.override_with([](const auto& next, Core& core, QueuePair& qp, Response& response) {
         std::optional<OutgoingPacket> packet = next(core, qp, response);
         if (packet && opcode(packet->fields.opcode).position == Position::middle) {
           const std::uint32_t aeth = std::uint32_t{response.syndrome} << 24 | response.msn.value();
           std::uint8_t bytes[4];
           store_be(bytes, 4, aeth);
           packet->payload.insert(packet->payload.begin(), bytes, bytes + 4);
         }
         return packet;
       });
     }},
    {Fault::short_read_packets,
     [](Decisions& d) {
       d.responder.read_response_mtu.override_with([](const auto& next, const QueuePair& qp, const Response& response) {
         const std::uint32_t mtu = next(qp, response);
         return response.psn == response.request && response.left > mtu ? mtu / 2 : mtu;
       });
     }},
    {Fault::stale_read_data,
     [](Decisions& d) {
       d.responder.bytes_of_read.override_with(
           [](const auto& next, Core& core, const QueuePair& qp, const Response& response, std::uint32_t count) {
             auto found = next(core, qp, response, count);
             if (!found) found.emplace(count, std::uint8_t{0});
             return found;
           });
     }},
    {Fault::read_error_at_request,
     [](Decisions& d) {
       d.responder.read_error_psn.override_with(
           [](const auto& /*next*/, const Response& response) { return response.request; });
     }},
    // Responses of A19
    {Fault::flush_acknowledged,
     [](Decisions& d) {
       d.responder.kind_of_answer.override_with([](const auto& next, Operation operation) {
         return operation == Operation::flush ? Response::Kind::acknowledge : next(operation);
       });
     }},
    {Fault::atomic_write_acknowledged,
     [](Decisions& d) {
       d.responder.kind_of_answer.override_with([](const auto& next, Operation operation) {
         return operation == Operation::atomic_write ? Response::Kind::acknowledge : next(operation);
       });
     }},
};

}  // namespace

std::span<const FaultOverride> responder_overrides() { return responder_rows; }

}  // namespace rdmawire::device
