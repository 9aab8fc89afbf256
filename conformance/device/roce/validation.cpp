/// Checks of received frames before they reach a queue pair. IBTA vol 1, 9.6.1, A17.4.

#include "conformance/device/roce/core.hpp"

namespace rdmawire::device {

namespace {

constexpr std::uint8_t acknowledge_opcode = 0x11;

/// 9.6.1.2.3, A17.4.4.2: a connected queue pair accepts packets only from its peer and to its own address.
bool from_peer(const Core& core, const QueuePair& qp, const Packet& packet) {
  if (!qp.is_connected()) return packet.type == GidType::roce_v2 || !core.faults[Fault::datagrams_v2_alone];
  if (packet.sgid != qp.attributes.path.dgid && !core.faults[Fault::ignores_source_address]) return false;
  const GidEntry& own = core.port.gids[qp.attributes.path.sgid_index];
  if (packet.type != own.type && !core.faults[Fault::connected_takes_v1]) return false;
  return (packet.dgid == own.gid && packet.vlan == own.vlan) || core.faults[Fault::ignores_destination_address];
}

/// Check the P_Key against the queue pair's P_Key. QP1 accepts any P_Key of the port's table (C9-42).
bool good_pkey(const Core& core, const QueuePair& qp, std::uint16_t pkey) {
  if (core.faults[Fault::ignores_pkey]) return true;
  if (qp.qpn != 1 || core.faults[Fault::qp1_pkey_of_entry_0]) return pkeys_match(pkey, core.pkey_of(qp));
  for (const std::uint16_t entry : core.port.pkeys)
    if (pkeys_match(pkey, entry)) return true;
  return false;
}

bool good_qkey(const Core& core, const QueuePair& qp, std::uint32_t qkey) {
  if (qp.is_connected() || core.faults[Fault::ignores_qkey]) return true;
  return qkey == qp.attributes.qkey || (qp.qpn == 1 && core.faults[Fault::qp1_takes_any_qkey]);
}

bool is_response(const Packet& packet) { return packet.op->known && packet.op->direction == Direction::response; }

/// Fault: send a response that a conforming device does not send.
void answer_wrongly(Core& core, const Packet& packet, std::uint32_t dest_qpn, std::uint8_t syndrome) {
  if (core.control.size() >= Core::most_control) return;
  OutgoingPacket answer;
  answer.path.dgid = packet.sgid;
  answer.path.sgid_index = core.port.find(packet.dgid, packet.type, packet.vlan).value_or(0);
  answer.fields.opcode = acknowledge_opcode;
  answer.fields.pkey = packet.fields.pkey;
  answer.fields.dest_qpn = dest_qpn;
  answer.fields.psn = packet.fields.psn;
  answer.fields.syndrome = syndrome;
  core.control.push_back(std::move(answer));
}

/// CA17-44 applies to valid packets: a duplicate request causes no CNP.
bool is_duplicate(const QueuePair& qp, const Packet& packet) {
  return qp.is_reliable() && !is_response(packet) &&
         qp.responder.state.window.place(packet.fields.psn) == machines::RequestPlace::duplicate;
}

void deliver_by_service(Core& core, QueuePair& qp, const Packet& packet) {
  if (packet.congestion_experienced() && !is_duplicate(qp, packet)) notice_mark(core, qp, packet);
  if (packet.fields.fecn && core.faults[Fault::fecn_slows]) slow_down(core, qp);
  switch (qp.options.type) {
    case QpType::uc: receive_unreliable(core, qp, packet); break;
    case QpType::ud: receive_datagram(core, qp, packet); break;
    case QpType::xrc_initiator:
      if (is_response(packet)) receive_response(core, qp, packet);
      break;
    case QpType::xrc_target:
      if (!is_response(packet)) receive_request(core, qp, packet);
      break;
    case QpType::rc:
      if (is_response(packet))
        receive_response(core, qp, packet);
      else
        receive_request(core, qp, packet);
      break;
  }
}

/// True if the state accepts packets. Faults send responses in other states.
bool open_to(Core& core, QueuePair& qp, const Packet& packet) {
  if (qp.state == QpState::rtr && core.faults[Fault::deaf_until_rts]) return false;
  if (qp.state == QpState::sqe && core.faults[Fault::send_error_ends_receiving]) return false;
  if (qp.takes_requests() || qp.takes_responses()) return true;
  if (qp.state == QpState::init && core.faults[Fault::receives_in_init] && !qp.receives.empty()) {
    const ReceiveRequest request = std::move(qp.receives.front());
    qp.receives.pop_front();
    complete_receive(core, qp, request, {.opcode = CompletionOpcode::receive}, false);
  }
  const bool answers = qp.state == QpState::err && core.faults[Fault::answers_in_error];
  if (answers && qp.is_reliable() && !is_response(packet))
    answer_wrongly(core, packet, qp.attributes.dest_qpn, Syndrome::ack().bits());
  return false;
}

void receive_for(Core& core, QueuePair& qp, const Packet& packet) {
  if (!open_to(core, qp, packet) || packet.op->transport != qp.transport() || !from_peer(core, qp, packet)) {
    ++core.counters.misdirected;
    return;
  }
  if (!good_pkey(core, qp, packet.fields.pkey)) {
    Counters::count_16(core.counters.bad_pkeys, core.faults[Fault::port_counters_wrap]);
    return;
  }
  if (!good_qkey(core, qp, packet.fields.qkey)) {
    Counters::count_16(core.counters.qkey_violations, core.faults[Fault::port_counters_wrap]);
    return;
  }
  deliver_by_service(core, qp, packet);
}

void receive_multicast(Core& core, const Packet& packet) {
  for (const Group& group : core.groups) {
    if (group.gid != packet.dgid) continue;
    const std::vector<std::uint32_t> qpns = group.qpns;
    for (const std::uint32_t qpn : qpns) {
      QueuePair* qp = core.qp(qpn);
      if (qp && qp->options.type == QpType::ud) receive_for(core, *qp, packet);
      if (core.faults[Fault::multicast_to_first_alone]) return;
    }
    return;
  }
  ++core.counters.misdirected;
}

/// Check addresses, version, reserved bits and destination QP.
bool is_acceptable(const Core& core, const Packet& packet) {
  constexpr std::uint32_t multicast_qpn = 0xffffff;
  const bool multicast = packet.dgid.is_multicast();
  const bool listed = multicast || core.port.find(packet.dgid, packet.type, packet.vlan);  // CA17-41
  if (!listed && !core.faults[Fault::ignores_destination_address]) return false;
  if (packet.tver != 0 && !core.faults[Fault::ignores_header_version]) return false;
  if (packet.reserved_bits && core.faults[Fault::minds_reserved_bits]) return false;
  if (!packet.fields.migrated && core.faults[Fault::wants_migrated]) return false;
  if (multicast && packet.fields.dest_qpn != multicast_qpn) return core.faults[Fault::multicast_to_any_qpn];
  return multicast || packet.fields.dest_qpn != multicast_qpn;
}

void receive_packet(Core& core, Packet& packet) {
  if (packet.dgid.is_multicast() && packet.fields.dest_qpn == 0xffffff) {
    receive_multicast(core, packet);
    return;
  }
  if (packet.op->known && packet.op->operation == Operation::congestion_notification) {
    receive_notification(core, packet);
    return;
  }
  QueuePair* qp = packet.fields.dest_qpn == 0 ? nullptr : core.qp(packet.fields.dest_qpn);
  if (packet.fields.dest_qpn == 1 && !qp) {
    receive_management(core, packet);
    return;
  }
  if (!qp) {
    ++core.counters.misdirected;
    const bool answers = core.faults[packet.fields.dest_qpn == 0 ? Fault::answers_qp_zero : Fault::answers_unknown_qp];
    if (answers && !is_response(packet))
      answer_wrongly(core, packet, packet.fields.dest_qpn, Syndrome::nak(nak_code::invalid_request).bits());
    return;
  }
  if (core.faults[Fault::ignores_transport_class] && packet.op->transport != qp->transport())
    packet.op = &opcode(
        static_cast<std::uint8_t>(static_cast<unsigned>(qp->transport()) << 5 | (packet.fields.opcode & 0x1fU)));
  receive_for(core, *qp, packet);
}

}  // namespace

void receive_frame(Core& core, Bytes frame) {
  Packet packet;
  const Refusal refusal = read_packet(packet, frame, core.port, core.faults);
  if (refusal == Refusal::icrc && core.faults[Fault::cnp_for_bad_packets] && packet.congestion_experienced())
    if (QueuePair* qp = core.qp(packet.fields.dest_qpn)) notice_mark(core, *qp, packet);
  switch (refusal) {
    case Refusal::none: break;
    case Refusal::malformed: ++core.counters.malformed; return;
    case Refusal::icrc: ++core.counters.icrc_errors; return;
    case Refusal::not_ours:
    case Refusal::not_roce: return;
  }
  ++core.counters.received_packets;
  core.counters.received_bytes += frame.size();
  if (!is_acceptable(core, packet)) {
    ++core.counters.misdirected;
    return;
  }
  core.port.learn(packet.sgid, packet.source_mac);
  receive_packet(core, packet);
}

}  // namespace rdmawire::device
