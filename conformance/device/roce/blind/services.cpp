/// Blind faults of UC, UD, XRC, congestion control and the connection manager.

#include <algorithm>

#include "conformance/device/roce/blind/blind_faults.hpp"
#include "conformance/device/roce/core.hpp"
#include "conformance/device/roce/requester.hpp"

namespace rdmawire::device {

namespace {

constexpr std::string_view services = "UC, UD and XRC", congestion = "congestion control",
                           manager = "connection manager";

constexpr RoceBlindFault blind_service_rows[] = {
    {.name = "uc-drops-earlier-psns",
     .area = services,
     .sentence = "The UC responder drops a message whose first PSN precedes the expected PSN.",
     .trigger = "UC message with a PSN before the expected one: it is not delivered",
     .add_to =
         [](Decisions& d) {
           d.unreliable.judge.override_with(
               [](const auto& next, Core& core, QueuePair& qp, const machines::RcRequest& request) {
                 const machines::UcResponder& at = qp.responder.uc;
                 if (request.op->known && request.op->begins_message() && request.psn - at.window.expected < 0)
                   return machines::UcDecision{.abandons = at.sequence.inside};
                 return next(core, qp, request);
               });
         }},
    {.name = "ud-immediate-lost-without-payload",
     .area = services,
     .sentence = "The completion of an empty datagram has no immediate data.",
     .trigger = "UD SEND with Immediate of 0 bytes: the flag and the value in the completion",
     .add_to =
         [](Decisions& d) {
           d.datagrams.completion.override_with([](const auto& next, const QueuePair& qp, const Packet& packet) {
             Completion completion = next(qp, packet);
             if (packet.payload.empty()) {
               completion.has_immediate = false;
               completion.immediate = 0;
             }
             return completion;
           });
         }},
    {.name = "ud-header-misplaced-in-vlan",
     .area = services,
     .sentence = "The IPv4 header of a datagram from a VLAN is stored in the first 20 of the 40 header bytes.",
     .trigger = "UD SEND over IPv4 in a VLAN: the first 40 bytes of the receive",
     .add_to =
         [](Decisions& d) {
           d.datagrams.network_header_offset.override_with(
               [](const auto& next, const Packet& packet) { return packet.vlan != 0 ? 0 : next(packet); });
         }},
    {.name = "ud-source-of-16-bits",
     .area = services,
     .sentence = "The completion of a datagram has only the low 16 bits of the source QP number.",
     .trigger = "UD SEND from a QP number of 0x10000 or more: the source QP of the completion",
     .add_to =
         [](Decisions& d) {
           d.datagrams.completion.override_with([](const auto& next, const QueuePair& qp, const Packet& packet) {
             Completion completion = next(qp, packet);
             completion.source_qpn &= 0xffff;
             return completion;
           });
         }},
    {.name = "xrc-empty-srq-rejected",
     .area = services,
     .sentence = "An XRC target rejects requests for an empty SRQ permanently.",
     .trigger = "XRC SEND to an SRQ without receives: an invalid request NAK instead of an RNR NAK",
     .add_to =
         [](Decisions& d) {
           d.responder.may_use.override_with([](const auto& next, const QueuePair& qp, const SharedReceiveQueue& srq) {
             return next(qp, srq) && !srq.requests.empty();
           });
         }},
    {.name = "xrc-number-lost-in-retry",
     .area = services,
     .sentence = "Retransmitted XRC packets have SRQ number 0.",
     .trigger = "loss of an XRC request: the XRCETH of its retransmission",
     .add_to =
         [](Decisions& d) {
           d.requester.fill.override_with(
               [](const auto& next, const QueuePair& qp, const SendWork& work, std::uint32_t packet, PacketFields& to) {
                 next(qp, work, packet, to);
                 if (is_retransmission(qp.requester, work, packet)) to.xrc_srq = 0;
               });
         }},
};

constexpr RoceBlindFault blind_congestion_rows[] = {
    {.name = "no-cnp-for-marked-responses",
     .area = congestion,
     .sentence = "CE marks of responses and acknowledgements cause no CNP.",
     .trigger = "CE-marked ACK or READ response: no CNP",
     .add_to =
         [](Decisions& d) {
           d.congestion.observe.override_with([](const auto& next, Core& core, QueuePair& qp, const Packet& packet) {
             if (!packet.is_response()) next(core, qp, packet);
           });
         }},
    {.name = "no-cnp-over-ipv6",
     .area = congestion,
     .sentence = "CE marks in IPv6 headers cause no CNP.",
     .trigger = "CE-marked request over IPv6: no CNP",
     .add_to =
         [](Decisions& d) {
           d.congestion.observe.override_with([](const auto& next, Core& core, QueuePair& qp, const Packet& packet) {
             if (packet.is_ipv4) next(core, qp, packet);
           });
         }},
    {.name = "cnp-of-datagram-to-qp-zero",
     .area = congestion,
     .sentence = "The CNP for a marked datagram has destination QP 0.",
     .trigger = "CE-marked UD SEND: the destination QP of the CNP",
     .add_to =
         [](Decisions& d) {
           d.congestion.cnp.override_with(
               [](const auto& next, const Core& core, const QueuePair& qp, const Packet& packet) {
                 OutgoingPacket cnp = next(core, qp, packet);
                 if (!qp.is_connected()) cnp.fields.dest_qpn = 0;
                 return cnp;
               });
         }},
};

constexpr RoceBlindFault blind_manager_rows[] = {
    {.name = "cm-no-retry-after-mra",
     .area = manager,
     .sentence = "The CM gives up at the first timeout after an MRA.",
     .trigger = "MRA for a REQ, then silence: no retransmission of the REQ",
     .add_to =
         [](Decisions& d) {
           d.cm.time_out.override_with([](const auto& next, CmConnection& at, std::int64_t now) {
             if (at.machine.state == machines::CmState::rep_wait) at.machine.left = 0;
             return next(at, now);
           });
         }},
    {.name = "cm-starting-psn-of-23-bits",
     .area = manager,
     .sentence = "The CM clears the highest bit of the peer's starting PSN.",
     .trigger = "REQ or REP with a starting PSN of 0x800000 or more: the first PSN that the device sends",
     .add_to =
         [](Decisions& d) {
           d.cm.sending_psn.override_with([](const auto& next, const CmConnection& at) { return next(at) & 0x7fffff; });
         }},
    {.name = "cm-rep-retries-limited-to-two",
     .area = manager,
     .sentence = "The CM retransmits a REP at most twice, although the REQ permits more retries.",
     .trigger = "REQ with Max CM Retries 3 or more, no RTU: the number of REPs",
     .add_to =
         [](Decisions& d) {
           d.cm.time_out.override_with([](const auto& next, CmConnection& at, std::int64_t now) {
             const int used = at.machine.times.retries - at.machine.left;
             if (at.machine.waits_for_ready() && used >= 2) at.machine.left = 0;
             return next(at, now);
           });
         }},
    {.name = "cm-rep-always-unlimited-rnr",
     .area = manager,
     .sentence = "The REP always has RNR retry count 7.",
     .trigger = "accept with an RNR retry count below 7: the field of the REP",
     .add_to =
         [](Decisions& d) {
           d.cm.reply.override_with([](const auto& next, const CmConnection& at, const CmSettings& settings) {
             CmConnection changed = at;
             changed.own.rnr_retry_count = 7;
             return next(changed, settings);
           });
         }},
};

}  // namespace

std::span<const RoceBlindFault> service_blind_faults() {
  static const std::vector<RoceBlindFault> rows = [] {
    std::vector<RoceBlindFault> all(std::begin(blind_service_rows), std::end(blind_service_rows));
    all.insert(all.end(), std::begin(blind_congestion_rows), std::end(blind_congestion_rows));
    all.insert(all.end(), std::begin(blind_manager_rows), std::end(blind_manager_rows));
    return all;
  }();
  return rows;
}

}  // namespace rdmawire::device
