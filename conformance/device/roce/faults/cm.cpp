/// Faults of the connection manager.

#include "conformance/device/roce/cm_messages.hpp"
#include "conformance/device/roce/core.hpp"
#include "conformance/device/roce/faults/overrides.hpp"
#include "dissectors/protocol/mad.hpp"

namespace rdmawire::device {

namespace {

using machines::CmMessage;

constexpr FaultOverride cm_rows[] = {
    {Fault::rep_names_another,
     [](Decisions& d) {
       d.cm.reply.override_with([](const auto& next, const CmConnection& at, const CmSettings& settings) {
         CmConnection other = at;
         other.remote_id ^= 1;
         return next(other, settings);
       });
     }},
    {Fault::cm_psn_unheeded,
     [](Decisions& d) {
       d.cm.sending_psn.override_with([](const auto& next, const CmConnection& at) { return next(at) ^ 0x100; });
     }},
    {Fault::stays_connected,
     [](Decisions& d) {
       d.cm.end_queue_pair.override_with([](const auto& /*next*/, Core& /*core*/, QueuePair& /*qp*/) {});
     }},
    {Fault::one_request_more,
     [](Decisions& d) {
       d.cm.time_out.override_with([](const auto& next, CmConnection& at, std::int64_t now) {
         if (at.machine.left == 0 && at.machine.waits_for_reply() && !at.extra) {
           at.extra = true;
           at.machine.left = 1;
         }
         return next(at, now);
       });
     }},
    {Fault::new_id_each_request,
     [](Decisions& d) {
       d.cm.repeat.override_with([](const auto& next, CmMessage message, std::vector<std::uint8_t>& mad) {
         next(message, mad);
         if (message == CmMessage::req) mad[Mad::size] = static_cast<std::uint8_t>(mad[Mad::size] + 1);
       });
     }},
    {Fault::ignores_mra,
     [](Decisions& d) {
       d.cm.processes.override_with(
           [](const auto& next, CmMessage message) { return message != CmMessage::mra && next(message); });
     }},
    {Fault::cm_timeout_unheeded,
     [](Decisions& d) {
       d.cm.ack_timeout.override_with([](const auto& next, const CmConnection& at, const CmSettings& settings) {
         return static_cast<std::uint8_t>(next(at, settings) / 2);
       });
     }},
    {Fault::rejects_anonymously,
     [](Decisions& d) {
       d.cm.rejected_id.override_with([](const auto& next, const CmConnection& at, std::uint16_t reason) {
         return reason == machines::cm_reason::timeout ? 0 : next(at, reason);
       });
     }},
    {Fault::minds_lids,
     [](Decisions& d) {
       d.cm.rejection_reason.override_with([](const auto& next, const Core& core, const Packet& packet,
                                              const CmRequest& request, const CmListener* listener) {
         constexpr std::uint16_t by_gid = 0xffff;
         return request.remote_lid != by_gid ? machines::cm_reason::primary_lid_rejected
                                             : next(core, packet, request, listener);
       });
     }},
};

}  // namespace

std::span<const FaultOverride> cm_overrides() { return cm_rows; }

}  // namespace rdmawire::device
