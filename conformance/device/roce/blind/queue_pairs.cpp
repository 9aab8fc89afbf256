/// Blind faults of states, of several queue pairs, and of shared receive queues.

#include <algorithm>

#include "conformance/device/roce/blind/blind_faults.hpp"
#include "conformance/device/roce/core.hpp"

namespace rdmawire::device {

namespace {

constexpr std::string_view queue_pairs = "queue pairs and SRQ";

constexpr RoceBlindFault blind_queue_pair_rows[] = {
    {.name = "busy-queue-pair-blocks-fourth",
     .area = queue_pairs,
     .sentence = "Only one queue pair at a time has outstanding requests if four or more are in RTS.",
     .trigger = "four queue pairs in RTS, an unacknowledged request on one, a request on another: it is not sent",
     .add_to =
         [](Decisions& d) {
           d.requester.start.override_with([](const auto& next, Core& core, QueuePair& qp) {
             const auto in_rts =
                 std::ranges::count_if(core.qps, [](const auto& entry) { return entry.second.state == QpState::rts; });
             const bool other = std::ranges::any_of(core.qps, [&](const auto& entry) {
               return entry.first != qp.qpn && entry.second.is_reliable() && entry.second.state == QpState::rts &&
                      entry.second.requester.window.outstanding() != 0;
             });
             return !(in_rts >= 4 && other) && next(core, qp);
           });
         }},
    {.name = "srq-limit-of-one-ignored",
     .area = queue_pairs,
     .sentence = "An SRQ with limit 1 raises no event when it becomes empty.",
     .trigger = "SRQ with limit 1, consumption of its last receive: no event",
     .add_to =
         [](Decisions& d) {
           d.queue_pairs.is_below_limit.override_with(
               [](const auto& next, const SharedReceiveQueue& srq) { return srq.limit > 1 && next(srq); });
         }},
    {.name = "srq-ignores-rnr-timer",
     .area = queue_pairs,
     .sentence = "A queue pair with an SRQ sends RNR timer code 12 and ignores its attribute.",
     .trigger = "empty SRQ, min_rnr_timer other than 12: the code of the RNR NAK",
     .add_to =
         [](Decisions& d) {
           d.responder.rnr_timer.override_with(
               [](const auto& next, const QueuePair& qp) { return qp.options.srq != 0 ? 12U : next(qp); });
         }},
    {.name = "flushes-sixteen-receives",
     .area = queue_pairs,
     .sentence = "The Error state completes only the first 16 receives.",
     .trigger = "17 or more posted receives, transition to the Error state: completions are missing",
     .add_to =
         [](Decisions& d) {
           d.queue_pairs.flush_receives.override_with(
               [](const auto& next, Core& core, QueuePair& qp, const std::deque<ReceiveRequest>& receives) {
                 std::deque<ReceiveRequest> first = receives;
                 if (first.size() > 16) first.resize(16);
                 next(core, qp, first);
               });
         }},
    {.name = "reset-keeps-nak-state",
     .area = queue_pairs,
     .sentence = "The responder remembers across RESET that it has reported a gap.",
     .trigger = "gap, NAK, RESET, new connection, gap: no NAK",
     .add_to =
         [](Decisions& d) {
           d.queue_pairs.reset.override_with([](const auto& next, QueuePair& qp) {
             const bool sent = qp.responder.state.nak_sent;
             next(qp);
             qp.responder.state.nak_sent = sent;
           });
           d.queue_pairs.begin_receiving.override_with([](const auto& next, QueuePair& qp) {
             const bool sent = qp.responder.state.nak_sent;
             next(qp);
             qp.responder.state.nak_sent = sent;
           });
         }},
    {.name = "reset-keeps-used-retries",
     .area = queue_pairs,
     .sentence = "Retries that were used before RESET are missing after it.",
     .trigger = "timeouts without progress, RESET, new connection, timeouts: an early retry error",
     .add_to =
         [](Decisions& d) {
           d.queue_pairs.reset.override_with([](const auto& next, QueuePair& qp) {
             const machines::RcRetries old = qp.requester.retries;
             next(qp);
             qp.requester.retries = old;
           });
           d.queue_pairs.begin_sending.override_with([](const auto& next, QueuePair& qp) {
             const machines::RcRetries old = qp.requester.retries;
             next(qp);
             machines::RcRetries& retries = qp.requester.retries;
             const int left = retries.timeouts - (old.timeouts - old.timeouts_left);
             retries.timeouts_left = static_cast<std::uint8_t>(std::max(0, left));
           });
         }},
    {.name = "flush-does-not-notify",
     .area = queue_pairs,
     .sentence = "Flushed completions do not notify a completion queue that is armed for solicited events.",
     .trigger = "CQ armed for solicited events, transition to the Error state: no notification",
     .add_to =
         [](Decisions& d) {
           d.completions.notifies.override_with(
               [](const auto& next, const CompletionQueue& queue, const Completion& completion, bool solicited) {
                 const bool flushed = completion.status == Status::flushed && queue.armed == Notify::solicited;
                 return !flushed && next(queue, completion, solicited);
               });
         }},
    {.name = "no-gap-nak-in-sqd",
     .area = queue_pairs,
     .sentence = "A queue pair in SQD does not report gaps of received requests.",
     .trigger = "queue pair in SQD, gap in the received PSNs: no NAK",
     .add_to =
         [](Decisions& d) {
           d.responder.report_gap.override_with([](const auto& next, Core& core, QueuePair& qp, const Packet& packet,
                                                   const machines::RcRequest& request) {
             if (qp.state != QpState::sqd) next(core, qp, packet, request);
           });
         }},
    {.name = "destination-of-23-bits",
     .area = queue_pairs,
     .sentence = "The sender clears the highest bit of the destination QP number.",
     .trigger = "peer with QP number 0x800000 or more: the destination QP of all packets",
     .add_to =
         [](Decisions& d) {
           d.encoding.base_header.override_with([](const auto& next, const PacketFields& from) {
             PacketFields fields = from;
             fields.dest_qpn &= 0x7fffff;
             return next(fields);
           });
         }},
};

}  // namespace

std::span<const RoceBlindFault> queue_pair_blind_faults() { return blind_queue_pair_rows; }

}  // namespace rdmawire::device
