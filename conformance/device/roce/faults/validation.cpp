/// Faults in the checks of received packets and in QP 1.

#include "conformance/device/roce/core.hpp"
#include "conformance/device/roce/faults/overrides.hpp"
#include "conformance/device/roce/responder.hpp"
#include "dissectors/protocol/mad.hpp"

namespace rdmawire::device {

namespace {

/// Acknowledge a packet that a conforming device drops.
void answer_dropped(Core& core, const Packet& packet, std::uint32_t dest_qpn, Syndrome syndrome) {
  if (packet.is_response() || core.control.size() >= Core::most_control) return;
  constexpr std::uint8_t acknowledge = 0x11;
  OutgoingPacket answer;
  answer.path.dgid = packet.sgid;
  answer.path.sgid_index = core.port.find(packet.dgid, packet.type, packet.vlan).value_or(0);
  answer.fields.opcode = acknowledge;
  answer.fields.pkey = packet.fields.pkey;
  answer.fields.dest_qpn = dest_qpn;
  answer.fields.psn = packet.fields.psn;
  answer.fields.syndrome = syndrome.bits();
  core.control.push_back(std::move(answer));
}

/// Send a NAK for a packet to a queue pair that does not exist. `zero`: only for QP 0. Otherwise for all other numbers.
template <bool zero>
void reject_unknown(const decltype(ValidationDecisions::drop_unknown)::Next& next, Core& core, const Packet& packet) {
  next(core, packet);
  if ((packet.fields.dest_qpn == 0) == zero)
    answer_dropped(core, packet, packet.fields.dest_qpn, Syndrome::nak(nak_code::invalid_request));
}

template <QpState state>
bool accepts_except_in(const decltype(ValidationDecisions::accepts_packets)::Next& next, const QueuePair& qp) {
  return qp.state != state && next(qp);
}

/// Replace the path by one to an IPv4 address of the same neighbor.
void go_over_ipv4(const Core& core, AddressVector& path) {
  const auto mac = core.port.mac_of(path.dgid);
  if (path.dgid.is_ipv4() || !mac) return;
  for (const auto& [gid, of] : core.port.neighbors)
    if (gid.is_ipv4() && of == *mac) {
      path.dgid = gid;
      path.sgid_index = core.port.source_for(gid, {}).value_or(path.sgid_index);
      return;
    }
}

constexpr FaultOverride validation_rows[] = {
    // Frames
    {Fault::cnp_for_bad_packets,
     [](Decisions& d) {
       d.validation.drop_frame.override_with([](const auto& next, Core& core, const Packet& packet, Refusal refusal) {
         QueuePair* qp = refusal == Refusal::icrc ? core.qp(packet.fields.dest_qpn) : nullptr;
         if (qp && packet.congestion_experienced()) notice_mark(core, *qp, packet);
         next(core, packet, refusal);
       });
     }},
    // Headers
    {Fault::ignores_destination_address,
     [](Decisions& d) {
       d.validation.is_own_address.override_with(
           [](const auto& /*next*/, const Core& /*core*/, const Packet& /*packet*/) { return true; });
       d.validation.accepts_destination.override_with([](const auto& /*next*/, const Core& /*core*/,
                                                         const QueuePair& /*qp*/,
                                                         const Packet& /*packet*/) { return true; });
     }},
    {Fault::ignores_header_version,
     [](Decisions& d) {
       d.validation.accepts_header_version.override_with(
           [](const auto& /*next*/, const Packet& /*packet*/) { return true; });
     }},
    {Fault::minds_reserved_bits,
     [](Decisions& d) {
       d.validation.accepts_headers.override_with([](const auto& next, const Core& core, const Packet& packet) {
         return !packet.reserved_bits && next(core, packet);
       });
     }},
    {Fault::wants_migrated,
     [](Decisions& d) {
       d.validation.accepts_headers.override_with([](const auto& next, const Core& core, const Packet& packet) {
         return packet.fields.migrated && next(core, packet);
       });
     }},
    {Fault::refuses_migrated,
     [](Decisions& d) {
       d.validation.accepts_headers.override_with([](const auto& next, const Core& core, const Packet& packet) {
         return !packet.fields.migrated && next(core, packet);
       });
     }},
    {Fault::only_ipv6,
     [](Decisions& d) {
       d.validation.accepts_headers.override_with([](const auto& next, const Core& core, const Packet& packet) {
         return !packet.is_ipv4 && next(core, packet);
       });
     }},
    {Fault::deaf_after_malformed,
     [](Decisions& d) {
       d.validation.accepts_headers.override_with([](const auto& next, const Core& core, const Packet& packet) {
         return core.counters.malformed == 0 && next(core, packet);
       });
     }},
    {Fault::answers_multicast_qpn,
     [](Decisions& d) {
       d.validation.accepts_destination_qpn.override_with([](const auto& next, const Packet& packet) {
         return (!packet.dgid.is_multicast() && packet.fields.dest_qpn == 0xffffff) || next(packet);
       });
       d.validation.drop_unknown.override_with([](const auto& next, Core& core, const Packet& packet) {
         next(core, packet);
         if (packet.fields.dest_qpn == 0xffffff)
           answer_dropped(core, packet, packet.fields.dest_qpn, Syndrome::nak(nak_code::invalid_request));
       });
     }},
    {Fault::multicast_to_any_qpn,
     [](Decisions& d) {
       d.validation.accepts_destination_qpn.override_with(
           [](const auto& next, const Packet& packet) { return packet.dgid.is_multicast() || next(packet); });
     }},
    {Fault::multicast_to_first_alone,
     [](Decisions& d) {
       d.validation.receivers_of.override_with([](const auto& next, const Group& group) {
         std::vector<std::uint32_t> qpns = next(group);
         if (qpns.size() > 1) qpns.resize(1);
         return qpns;
       });
     }},
    // Destination queue pair
    {Fault::answers_qp_zero, [](Decisions& d) { d.validation.drop_unknown.override_with(reject_unknown<true>); }},
    {Fault::answers_unknown_qp, [](Decisions& d) { d.validation.drop_unknown.override_with(reject_unknown<false>); }},
    {Fault::ignores_transport_class,
     [](Decisions& d) {
       d.validation.receive_for.override_with([](const auto& next, Core& core, QueuePair& qp, const Packet& packet) {
         Packet same_service = packet;
         if (packet.op->transport != qp.transport() && packet.fields.dest_qpn == qp.qpn)
           same_service.op = &opcode(
               static_cast<std::uint8_t>(static_cast<unsigned>(qp.transport()) << 5 | (packet.fields.opcode & 0x1fU)));
         next(core, qp, same_service);
       });
     }},
    {Fault::deaf_until_rts,
     [](Decisions& d) { d.validation.accepts_packets.override_with(accepts_except_in<QpState::rtr>); }},
    {Fault::deaf_when_draining,
     [](Decisions& d) { d.validation.accepts_packets.override_with(accepts_except_in<QpState::sqd>); }},
    {Fault::send_error_ends_receiving,
     [](Decisions& d) { d.validation.accepts_packets.override_with(accepts_except_in<QpState::sqe>); }},
    {Fault::receives_in_init,
     [](Decisions& d) {
       d.validation.drop_in_state.override_with([](const auto& next, Core& core, QueuePair& qp, const Packet& packet) {
         if (qp.state == QpState::init && !qp.receives.empty()) {
           const ReceiveRequest request = std::move(qp.receives.front());
           qp.receives.pop_front();
           complete_receive(core, qp, request, {.opcode = CompletionOpcode::receive}, false);
         }
         next(core, qp, packet);
       });
     }},
    {Fault::answers_in_error,
     [](Decisions& d) {
       d.validation.drop_in_state.override_with([](const auto& next, Core& core, QueuePair& qp, const Packet& packet) {
         if (qp.state == QpState::err && qp.is_reliable())
           answer_dropped(core, packet, qp.attributes.dest_qpn, Syndrome::ack());
         next(core, qp, packet);
       });
     }},
    {Fault::answers_before_rtr,
     [](Decisions& d) {
       d.validation.drop_in_state.override_with([](const auto& next, Core& core, QueuePair& qp, const Packet& packet) {
         const bool before = qp.state == QpState::reset || qp.state == QpState::init;
         if (before && qp.is_reliable() && packet.op->known && packet.op->operation == Operation::rdma_write) {
           qp.responder.pd = qp.options.pd;
           change_memory(core, qp, packet, request_of(packet));
           answer_dropped(core, packet, qp.attributes.dest_qpn, Syndrome::ack());
         }
         next(core, qp, packet);
       });
     }},
    // Peer
    {Fault::ignores_source_address,
     [](Decisions& d) {
       d.validation.accepts_source.override_with(
           [](const auto& /*next*/, const QueuePair& /*qp*/, const Packet& /*packet*/) { return true; });
     }},
    {Fault::connected_takes_v1,
     [](Decisions& d) {
       d.validation.accepts_version.override_with(
           [](const auto& next, const Core& core, const QueuePair& qp, const Packet& packet) {
             return qp.is_connected() || next(core, qp, packet);
           });
     }},
    {Fault::datagrams_v2_alone,
     [](Decisions& d) {
       d.validation.accepts_version.override_with(
           [](const auto& next, const Core& core, const QueuePair& qp, const Packet& packet) {
             return next(core, qp, packet) && (qp.is_connected() || packet.type == GidType::roce_v2);
           });
     }},
    // Keys
    {Fault::ignores_pkey,
     [](Decisions& d) {
       d.validation.accepts_pkey.override_with([](const auto& /*next*/, const Core& /*core*/, const QueuePair& /*qp*/,
                                                  std::uint16_t /*pkey*/) { return true; });
       d.management.accepts_pkey.override_with(
           [](const auto& /*next*/, const Core& /*core*/, std::uint16_t /*pkey*/) { return true; });
     }},
    {Fault::refuses_limited_members,
     [](Decisions& d) {
       d.validation.accepts_pkey.override_with(
           [](const auto& next, const Core& core, const QueuePair& qp, std::uint16_t pkey) {
             constexpr std::uint16_t full_member = 0x8000;
             return (pkey & full_member) != 0 && next(core, qp, pkey);
           });
     }},
    {Fault::qp1_pkey_of_entry_0,
     [](Decisions& d) {
       d.validation.accepts_pkey.override_with(
           [](const auto& next, const Core& core, const QueuePair& qp, std::uint16_t pkey) {
             return qp.qpn == 1 ? pkeys_match(pkey, core.pkey_of(qp)) : next(core, qp, pkey);
           });
       d.management.accepts_pkey.override_with([](const auto& /*next*/, const Core& core, std::uint16_t pkey) {
         return pkeys_match(pkey, core.port.pkeys[0]);
       });
     }},
    {Fault::ignores_qkey,
     [](Decisions& d) {
       d.validation.accepts_qkey.override_with(
           [](const auto& /*next*/, const QueuePair& /*qp*/, std::uint32_t /*qkey*/) { return true; });
       d.management.accepts_qkey.override_with([](const auto& /*next*/, std::uint32_t /*qkey*/) { return true; });
     }},
    {Fault::qp1_takes_any_qkey,
     [](Decisions& d) {
       d.validation.accepts_qkey.override_with(
           [](const auto& next, const QueuePair& qp, std::uint32_t qkey) { return qp.qpn == 1 || next(qp, qkey); });
       d.management.accepts_qkey.override_with([](const auto& /*next*/, std::uint32_t /*qkey*/) { return true; });
     }},
    {Fault::port_counters_wrap,
     [](Decisions& d) {
       d.validation.count_violation.override_with([](const auto& next, std::uint64_t& counter) {
         if (counter >= 0xffff)
           counter = 0;
         else
           next(counter);
       });
     }},
    // Management datagrams
    {Fault::short_mads,
     [](Decisions& d) {
       d.management.datagram.override_with(
           [](const auto& next, Core& core, const CmPath& way, std::vector<std::uint8_t> mad) {
             while (mad.size() > Mad::size && mad.back() == 0) mad.pop_back();
             return next(core, way, std::move(mad));
           });
     }},
    {Fault::wrong_ids_in_cm_messages,
     [](Decisions& d) {
       d.management.datagram.override_with(
           [](const auto& next, Core& core, const CmPath& way, std::vector<std::uint8_t> mad) {
             constexpr std::size_t attribute_at = 16, local_id_end = 3, service_id_end = 15;
             constexpr std::uint64_t req = 0x0010, rtu = 0x0014;
             const std::uint64_t attribute = load_be<2>(mad.data() + attribute_at);
             if (attribute == req) mad[Mad::size + service_id_end] ^= 1;
             if (attribute == rtu) mad[Mad::size + local_id_end] ^= 1;
             return next(core, way, std::move(mad));
           });
     }},
    {Fault::cm_over_ipv4_alone,
     [](Decisions& d) {
       d.management.datagram.override_with(
           [](const auto& next, Core& core, const CmPath& way, std::vector<std::uint8_t> mad) {
             OutgoingPacket packet = next(core, way, std::move(mad));
             go_over_ipv4(core, packet.path);
             return packet;
           });
     }},
};

}  // namespace

std::span<const FaultOverride> validation_overrides() { return validation_rows; }

}  // namespace rdmawire::device
