/// Faults of the notification point and the reaction point.

#include "conformance/device/roce/core.hpp"
#include "conformance/device/roce/faults/overrides.hpp"

namespace rdmawire::device {

namespace {

constexpr FaultOverride congestion_rows[] = {
    {Fault::fecn_slows,
     [](Decisions& d) {
       d.congestion.observe.override_with([](const auto& next, Core& core, QueuePair& qp, const Packet& packet) {
         next(core, qp, packet);
         if (packet.fields.fecn) slow_down(core, qp);
       });
     }},
    {Fault::cnp_for_duplicates,
     [](Decisions& d) {
       d.congestion.observe.override_with([](const auto& /*next*/, Core& core, QueuePair& qp, const Packet& packet) {
         if (packet.congestion_experienced()) notice_mark(core, qp, packet);
       });
     }},
    {Fault::never_notifies,
     [](Decisions& d) {
       d.congestion.notices_marks.override_with([](const auto& /*next*/, const Core& /*core*/) { return false; });
     }},
    {Fault::cnp_with_psn,
     [](Decisions& d) {
       d.congestion.cnp.override_with(
           [](const auto& next, const Core& core, const QueuePair& qp, const Packet& packet) {
             OutgoingPacket cnp = next(core, qp, packet);
             cnp.fields.psn = packet.fields.psn;
             cnp.fields.cnp_reserved = 1;
             return cnp;
           });
     }},
    {Fault::cnp_ecn_capable,
     [](Decisions& d) {
       d.congestion.cnp.override_with(
           [](const auto& next, const Core& core, const QueuePair& qp, const Packet& packet) {
             OutgoingPacket cnp = next(core, qp, packet);
             cnp.ecn = 2;
             return cnp;
           });
     }},
    {Fault::two_cnps_a_mark,
     [](Decisions& d) {
       d.congestion.send_cnp.override_with([](const auto& next, Core& core, OutgoingPacket cnp) {
         next(core, cnp);
         next(core, std::move(cnp));
       });
     }},
    {Fault::paces_by_port,
     [](Decisions& d) {
       d.congestion.pacing.override_with(
           [](const auto& /*next*/, Core& core, QueuePair& /*qp*/) -> machines::NotificationPoint& {
             return core.notification;
           });
     }},
    {Fault::cnp_for_cnp,
     [](Decisions& d) {
       d.congestion.handle_cnp.override_with([](const auto& next, Core& core, QueuePair& qp, const Packet& packet) {
         if (packet.congestion_experienced()) notice_mark(core, qp, packet);
         next(core, qp, packet);
       });
     }},
    {Fault::ignores_cnp,
     [](Decisions& d) {
       d.congestion.handle_cnp.override_with(
           [](const auto& /*next*/, Core& /*core*/, QueuePair& /*qp*/, const Packet& /*packet*/) {});
     }},
    {Fault::minds_cnp_reserved,
     [](Decisions& d) {
       d.congestion.obeys.override_with(
           [](const auto& next, const Core& core, const QueuePair& qp, const Packet& packet) {
             return packet.fields.cnp_reserved == 0 && next(core, qp, packet);
           });
     }},
    {Fault::never_recovers,
     [](Decisions& d) {
       d.congestion.rate_now.override_with(
           [](const auto& /*next*/, const Core& /*core*/, const QueuePair& qp) { return qp.rate; });
     }},
};

}  // namespace

std::span<const FaultOverride> congestion_overrides() { return congestion_rows; }

}  // namespace rdmawire::device
