/// Faults of the receivers of unreliable connections and datagrams.

#include <algorithm>

#include "conformance/device/roce/core.hpp"
#include "conformance/device/roce/faults/overrides.hpp"
#include "dissectors/machines/ud.hpp"

namespace rdmawire::device {

namespace {

using machines::UcReaction;

constexpr machines::UcDecision executed_anyway{UcReaction::execute, false};
constexpr machines::UcDecision dropped_anyway{UcReaction::drop, false};

/// Send a response, which UC does not have.
void answer_unreliable(Core& core, const QueuePair& qp, Psn psn, Syndrome syndrome) {
  constexpr std::uint8_t acknowledge = 0x11;
  OutgoingPacket answer = packet_of(core, qp, acknowledge, psn);
  answer.fields.syndrome = syndrome.bits();
  if (core.control.size() < Core::most_control) core.control.push_back(std::move(answer));
}

bool begins_message(const machines::RcRequest& request) { return request.op->known && request.op->begins_message(); }

bool is_after_gap(const QueuePair& qp, const machines::RcRequest& request) {
  return request.psn != qp.responder.uc.window.expected;
}

/// True if a packet with a valid PSN and valid headers is dropped.
bool is_dropped_in_order(const QueuePair& qp, const machines::RcRequest& request,
                         const machines::UcDecision& decision) {
  const machines::UcResponder& at = qp.responder.uc;
  return decision.reaction == UcReaction::drop && at.window.accepts(request.psn, begins_message(request)) &&
         machines::well_formed(at, request, qp.attributes.path_mtu);
}

bool lacks_receive(Core& core, QueuePair& qp, const machines::RcRequest& request) {
  return request.op->known && machines::takes_receive(*request.op) && !qp.responder.receive &&
         !next_receive(core, qp, qp.options.srq);
}

constexpr FaultOverride unreliable_rows[] = {
    // Unreliable connections
    {Fault::delivers_with_gap,
     [](Decisions& d) {
       d.unreliable.judge.override_with(
           [](const auto& next, Core& core, QueuePair& qp, const machines::RcRequest& request) {
             const bool lost = !begins_message(request) && qp.responder.uc.sequence.inside && is_after_gap(qp, request);
             const machines::UcDecision decision = next(core, qp, request);
             return lost ? executed_anyway : decision;
           });
     }},
    {Fault::waits_for_lost_uc,
     [](Decisions& d) {
       d.unreliable.judge.override_with(
           [](const auto& next, Core& core, QueuePair& qp, const machines::RcRequest& request) {
             const bool lost = begins_message(request) && !qp.responder.uc.sequence.inside && is_after_gap(qp, request);
             const machines::UcDecision decision = next(core, qp, request);
             return lost ? dropped_anyway : decision;
           });
       d.unreliable.after_drop.override_with([](const auto& /*next*/, const machines::UcResponder& at,
                                                const machines::RcRequest& /*request*/) { return at; });
     }},
    {Fault::takes_uc_middle_first,
     [](Decisions& d) {
       d.unreliable.judge.override_with(
           [](const auto& next, Core& core, QueuePair& qp, const machines::RcRequest& request) {
             const bool middle = !begins_message(request) && !qp.responder.uc.sequence.inside && request.op->known &&
                                 request.op->operation == Operation::send;
             const machines::UcDecision decision = next(core, qp, request);
             return middle ? executed_anyway : decision;
           });
       d.unreliable.takes_next_receive.override_with([](const auto& /*next*/, const Opcode& /*op*/) { return true; });
     }},
    {Fault::drops_uc_restart,
     [](Decisions& d) {
       d.unreliable.judge.override_with(
           [](const auto& next, Core& core, QueuePair& qp, const machines::RcRequest& request) {
             const machines::UcDecision decision = next(core, qp, request);
             return begins_message(request) && qp.responder.uc.sequence.inside ? dropped_anyway : decision;
           });
     }},
    {Fault::keeps_shared_receive,
     [](Decisions& d) {
       d.unreliable.judge.override_with(
           [](const auto& next, Core& core, QueuePair& qp, const machines::RcRequest& request) {
             machines::UcDecision decision = next(core, qp, request);
             decision.abandons = decision.too_long = false;
             return decision;
           });
     }},
    {Fault::uc_sends_rnr,
     [](Decisions& d) {
       d.unreliable.judge.override_with(
           [](const auto& next, Core& core, QueuePair& qp, const machines::RcRequest& request) {
             machines::UcDecision decision = next(core, qp, request);
             if (is_dropped_in_order(qp, request, decision) && lacks_receive(core, qp, request))
               answer_unreliable(core, qp, request.psn, Syndrome::rnr_nak(0));
             return decision;
           });
     }},
    {Fault::uc_naks_access,
     [](Decisions& d) {
       d.unreliable.judge.override_with(
           [](const auto& next, Core& core, QueuePair& qp, const machines::RcRequest& request) {
             machines::UcDecision decision = next(core, qp, request);
             if (is_dropped_in_order(qp, request, decision) && request.op->operation == Operation::rdma_write)
               answer_unreliable(core, qp, request.psn, Syndrome::nak(nak_code::remote_access_error));
             return decision;
           });
     }},
    {Fault::uc_delivers_long,
     [](Decisions& d) {
       d.unreliable.judge.override_with(
           [](const auto& next, Core& core, QueuePair& qp, const machines::RcRequest& request) {
             const machines::UcDecision decision = next(core, qp, request);
             const bool too_long = is_dropped_in_order(qp, request, decision) &&
                                   request.op->operation == Operation::send && !lacks_receive(core, qp, request);
             return too_long ? executed_anyway : decision;
           });
     }},
    {Fault::uc_checks_empty_access,
     [](Decisions& d) {
       d.unreliable.judge.override_with(
           [](const auto& next, Core& core, QueuePair& qp, const machines::RcRequest& request) {
             machines::UcDecision decision = next(core, qp, request);
             if (request.op->operation == Operation::rdma_write && begins_message(request) && request.length == 0 &&
                 !core.memory.knows(request.rkey))
               decision.reaction = UcReaction::drop;
             return decision;
           });
     }},
    {Fault::uc_naks_reads,
     [](Decisions& d) {
       d.unreliable.judge.override_with(
           [](const auto& next, Core& core, QueuePair& qp, const machines::RcRequest& request) {
             if (!request.op->known || request.op->operation == Operation::rdma_read_request)
               answer_unreliable(core, qp, request.psn, Syndrome::nak(nak_code::invalid_request));
             return next(core, qp, request);
           });
     }},
    {Fault::acknowledges_uc,
     [](Decisions& d) {
       d.unreliable.execute.override_with(
           [](const auto& next, Core& core, QueuePair& qp, const Packet& packet, const machines::RcRequest& request) {
             next(core, qp, packet, request);
             if (packet.op->ends_message()) answer_unreliable(core, qp, request.psn, Syndrome(0x1f));
           });
     }},
    // Datagrams
    {Fault::takes_beyond_mtu,
     [](Decisions& d) {
       d.datagrams.largest_datagram.override_with([](const auto& /*next*/, const Port& /*port*/) { return 65'536U; });
     }},
    {Fault::checks_ud_psn,
     [](Decisions& d) {
       d.datagrams.accepts_psn.override_with([](const auto& /*next*/, QueuePair& qp, Psn psn) {
         std::optional<Psn>& expected = qp.responder.faults.expected_datagram;
         if (expected && psn != *expected) return false;
         expected = psn + 1;
         return true;
       });
     }},
    {Fault::ud_sends_rnr,
     [](Decisions& d) {
       d.datagrams.drop.override_with(
           [](const auto& next, Core& core, QueuePair& qp, const Packet& packet, const ReceiveRequest* receive) {
             next(core, qp, packet, receive);
             if (receive || core.control.size() >= Core::most_control) return;
             constexpr std::uint8_t acknowledge = 0x11;
             OutgoingPacket answer = packet_of(core, qp, acknowledge, packet.fields.psn);
             answer.path.dgid = packet.sgid;
             answer.path.sgid_index = core.port.find(packet.dgid, packet.type, packet.vlan).value_or(0);
             answer.fields.dest_qpn = packet.fields.source_qpn;
             answer.fields.syndrome = Syndrome::rnr_nak(0).bits();
             core.control.push_back(std::move(answer));
           });
     }},
    {Fault::error_for_long_datagrams,
     [](Decisions& d) {
       d.datagrams.drop.override_with(
           [](const auto& next, Core& core, QueuePair& qp, const Packet& packet, const ReceiveRequest* receive) {
             next(core, qp, packet, receive);
             if (receive && packet.payload.size() + machines::ud_header_bytes > receive->bytes()) enter_error(core, qp);
           });
     }},
    {Fault::network_header_at_front,
     [](Decisions& d) {
       d.datagrams.network_header_offset.override_with(
           [](const auto& /*next*/, const Packet& /*packet*/) { return std::ptrdiff_t{0}; });
     }},
    {Fault::byte_len_without_header,
     [](Decisions& d) {
       d.datagrams.completion.override_with([](const auto& next, const QueuePair& qp, const Packet& packet) {
         Completion completion = next(qp, packet);
         completion.bytes = static_cast<std::uint32_t>(packet.payload.size());
         return completion;
       });
     }},
    {Fault::loses_ud_immediate,
     [](Decisions& d) {
       d.datagrams.completion.override_with([](const auto& next, const QueuePair& qp, const Packet& packet) {
         Completion completion = next(qp, packet);
         completion.has_immediate = false;
         completion.immediate = 0;
         return completion;
       });
     }},
};

}  // namespace

std::span<const FaultOverride> unreliable_overrides() { return unreliable_rows; }

}  // namespace rdmawire::device
