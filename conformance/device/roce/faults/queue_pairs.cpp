/// Faults of queue pair states, completions and verbs calls.

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>

#include "conformance/device/roce/core.hpp"
#include "conformance/device/roce/faults/overrides.hpp"

namespace rdmawire::device {

namespace {

using machines::ModifyAnswer;
using machines::PostAnswer;

constexpr FaultOverride queue_pair_rows[] = {
    // States
    {Fault::any_transition,
     [](Decisions& d) {
       d.queue_pairs.judge_modify.override_with(
           [](const auto& next, const QueuePair& qp, QpState to, machines::QueuePairAttributes given) {
             machines::ModifyDecision decision = next(qp, to, given);
             if (decision.answer == ModifyAnswer::illegal_transition) decision.answer = ModifyAnswer::done;
             return decision;
           });
     }},
    {Fault::attributes_optional,
     [](Decisions& d) {
       d.queue_pairs.judge_modify.override_with(
           [](const auto& next, const QueuePair& qp, QpState to, machines::QueuePairAttributes given) {
             machines::ModifyDecision decision = next(qp, to, given);
             if (decision.answer == ModifyAnswer::attribute_missing) decision.answer = ModifyAnswer::done;
             return decision;
           });
     }},
    {Fault::xrc_target_as_sender,
     [](Decisions& d) {
       d.queue_pairs.judge_modify.override_with(
           [](const auto& next, const QueuePair& qp, QpState to, machines::QueuePairAttributes given) {
             if (qp.options.type == QpType::xrc_target) return machines::judge_modify(QpType::rc, qp.state, to, given);
             return next(qp, to, given);
           });
     }},
    {Fault::anyone_privileged,
     [](Decisions& d) {
       d.queue_pairs.may_set_qkey.override_with(
           [](const auto& /*next*/, const QueuePair& /*qp*/, std::uint32_t /*qkey*/) { return true; });
     }},
    {Fault::reset_keeps_psns,
     [](Decisions& d) {
       d.queue_pairs.reset.override_with([](const auto& next, QueuePair& qp) {
         qp.old_psns = std::pair(qp.requester.window.next, qp.responder.state.window);
         next(qp);
       });
       d.queue_pairs.begin_receiving.override_with([](const auto& next, QueuePair& qp) {
         next(qp);
         if (qp.old_psns) qp.responder.state.window = qp.old_psns->second;
       });
       d.queue_pairs.begin_sending.override_with([](const auto& next, QueuePair& qp) {
         next(qp);
         if (qp.old_psns) qp.requester.window = {qp.old_psns->first, qp.old_psns->first};
       });
     }},
    {Fault::msn_starts_at_one,
     [](Decisions& d) {
       d.queue_pairs.begin_receiving.override_with([](const auto& next, QueuePair& qp) {
         next(qp);
         qp.responder.state.msn = Msn(1);
       });
     }},
    {Fault::starts_at_next_psn,
     [](Decisions& d) {
       d.queue_pairs.begin_sending.override_with([](const auto& next, QueuePair& qp) {
         next(qp);
         Requester& at = qp.requester;
         at.highest_sent = at.highest_sent + 1;
         at.window = {at.highest_sent, at.highest_sent};
       });
     }},
    {Fault::flushes_newest_first,
     [](Decisions& d) {
       d.queue_pairs.flush_sends.override_with(
           [](const auto& next, Core& core, QueuePair& qp, std::deque<SendWork> sends) {
             std::ranges::reverse(sends);
             next(core, qp, std::move(sends));
           });
     }},
    {Fault::forgets_to_flush,
     [](Decisions& d) {
       d.queue_pairs.flush_sends.override_with(
           [](const auto& /*next*/, Core& /*core*/, QueuePair& /*qp*/, std::deque<SendWork> /*sends*/) {});
       d.queue_pairs.flush_receives.override_with([](const auto& /*next*/, Core& /*core*/, QueuePair& /*qp*/,
                                                     const std::deque<ReceiveRequest>& /*receives*/) {});
     }},
    {Fault::sends_after_error,
     [](Decisions& d) {
       d.queue_pairs.flush_sends.override_with(
           [](const auto& next, Core& core, QueuePair& qp, std::deque<SendWork> sends) {
             qp.requester.queue = sends;
             next(core, qp, std::move(sends));
           });
       d.requester.sending.override_with([](const auto& next, const QueuePair& qp) {
         return qp.is_reliable() && qp.state == QpState::err ? machines::Sending::everything : next(qp);
       });
     }},
    {Fault::no_last_wqe_event,
     [](Decisions& d) {
       d.queue_pairs.reports_last_wqe.override_with(
           [](const auto& /*next*/, const QueuePair& /*qp*/) { return false; });
     }},
    {Fault::no_drained_event,
     [](Decisions& d) {
       d.queue_pairs.reports_drained.override_with([](const auto& /*next*/, const Requester& /*at*/) { return false; });
     }},
    // Completions
    {Fault::overflow_unnoticed,
     [](Decisions& d) {
       d.completions.overflow.override_with([](const auto& /*next*/, Core& /*core*/, CompletionQueue& /*queue*/) {});
     }},
    {Fault::never_notifies_cq,
     [](Decisions& d) {
       d.completions.notifies.override_with([](const auto& /*next*/, const CompletionQueue& /*queue*/,
                                               const Completion& /*completion*/, bool /*solicited*/) { return false; });
     }},
    {Fault::hides_unsignaled_failure,
     [](Decisions& d) {
       d.completions.reports.override_with([](const auto& next, const QueuePair& qp, const SendRequest& request,
                                              Status /*status*/) { return next(qp, request, Status::success); });
     }},
    {Fault::completes_unsignaled,
     [](Decisions& d) {
       d.completions.reports.override_with([](const auto& /*next*/, const QueuePair& /*qp*/,
                                              const SendRequest& /*request*/, Status /*status*/) { return true; });
     }},
    // Verbs calls
    {Fault::cnp_counters_stand,
     [](Decisions& d) {
       d.verbs.reported_counters.override_with([](const auto& next, const Counters& counters) {
         Counters reported = next(counters);
         reported.ecn_marked = reported.cnps_sent = reported.cnps_handled = 0;
         return reported;
       });
     }},
    {Fault::transport_counters_stand,
     [](Decisions& d) {
       d.verbs.reported_counters.override_with([](const auto& next, const Counters& counters) {
         Counters reported = next(counters);
         reported.duplicate_request = reported.out_of_sequence = 0;
         reported.rnr_naks_sent = reported.rnr_naks_received = reported.naks_sent = reported.naks_received = 0;
         reported.timeouts = reported.retries_exceeded = 0;
         return reported;
       });
     }},
    {Fault::gid_types_untold,
     [](Decisions& d) {
       d.verbs.reported_gid_type.override_with([](const auto& next, const GidEntry& entry) {
         return entry.gid.is_ipv4() ? next(entry) : std::string_view("ib");
       });
     }},
    {Fault::no_default_pkey,
     [](Decisions& d) {
       d.verbs.reported_pkeys.override_with([](const auto& next, const Port& port) {
         std::vector<std::uint16_t> pkeys = next(port);
         pkeys[0] = 0x8001;
         return pkeys;
       });
     }},
    {Fault::destroys_attached,
     [](Decisions& d) {
       d.verbs.may_destroy.override_with(
           [](const auto& /*next*/, const Core& /*core*/, const QueuePair& /*qp*/) { return Result<void>(); });
     }},
    {Fault::windows_keep_queue_pairs,
     [](Decisions& d) {
       d.verbs.may_destroy.override_with([](const auto& next, const Core& core, const QueuePair& qp) {
         Result<void> may = next(core, qp);
         if (may && core.memory.windows_of(qp.qpn) != 0)
           may = refuse(EBUSY, fmt::format("destroy_qp: windows are bound to queue pair {}", qp.handle));
         return may;
       });
     }},
    {Fault::posts_sends_early,
     [](Decisions& d) {
       d.verbs.post_send.override_with([](const auto& next, const QueuePair& qp) {
         machines::PostAnswer answer = next(qp);
         return answer == PostAnswer::refused ? PostAnswer::queued : answer;
       });
     }},
    {Fault::posts_receives_in_reset,
     [](Decisions& d) {
       d.verbs.post_receive.override_with([](const auto& next, const QueuePair& qp) {
         machines::PostAnswer answer = next(qp);
         return answer == PostAnswer::refused ? PostAnswer::queued : answer;
       });
     }},
    {Fault::refuses_posts_in_error,
     [](Decisions& d) {
       d.verbs.post_send.override_with([](const auto& next, const QueuePair& qp) {
         machines::PostAnswer answer = next(qp);
         return answer == PostAnswer::flushed ? PostAnswer::refused : answer;
       });
       d.verbs.post_receive.override_with([](const auto& next, const QueuePair& qp) {
         machines::PostAnswer answer = next(qp);
         return answer == PostAnswer::flushed ? PostAnswer::refused : answer;
       });
     }},
    {Fault::destroys_used_cq,
     [](Decisions& d) {
       d.verbs.uses_cq.override_with(
           [](const auto& /*next*/, const QueuePair& /*qp*/, std::uint32_t /*cq*/) { return false; });
     }},
};

}  // namespace

std::span<const FaultOverride> queue_pair_overrides() { return queue_pair_rows; }

}  // namespace rdmawire::device
