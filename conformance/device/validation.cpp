/// What happens to a frame before a queue pair sees it. IBTA vol 1, 9.6.1, A17.4.

#include "conformance/device/core.hpp"

namespace rdmawire::device {

namespace {

/// Whether a packet of this opcode can be for a queue pair of that type.
bool fits(const QueuePair& qp, const Packet& packet) { return packet.op->transport == qp.transport(); }

/// 9.6.1.2.3, A17.4.4.2: a connected queue pair hears its peer alone, at the address that it uses itself.
bool from_peer(const Core& core, const QueuePair& qp, const Packet& packet) {
  if (!qp.is_connected()) return true;
  if (packet.sgid != qp.attributes.path.dgid) return false;
  const GidEntry& own = core.port.gids[qp.attributes.path.sgid_index];
  return packet.dgid == own.gid && packet.type == own.type;
}

bool is_response(const Packet& packet) { return packet.op->known && packet.op->direction == Direction::response; }

void deliver(Core& core, QueuePair& qp, const Packet& packet) {
  if (packet.congestion_experienced()) notice_mark(core, qp, packet);
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

void receive_for(Core& core, QueuePair& qp, const Packet& packet) {
  if ((!qp.takes_requests() && !qp.takes_responses()) || !fits(qp, packet) || !from_peer(core, qp, packet)) {
    ++core.counters.misdirected;
    return;
  }
  if (!pkeys_match(packet.fields.pkey, core.pkey_of(qp))) {
    Counters::saturating(core.counters.bad_pkeys);
    return;
  }
  if (!qp.is_connected() && packet.fields.qkey != qp.attributes.qkey) {
    Counters::saturating(core.counters.qkey_violations);
    return;
  }
  deliver(core, qp, packet);
}

void receive_multicast(Core& core, const Packet& packet) {
  for (const Group& group : core.groups) {
    if (group.gid != packet.dgid) continue;
    const std::vector<std::uint32_t> qpns = group.qpns;
    for (const std::uint32_t qpn : qpns)
      if (QueuePair* qp = core.qp(qpn); qp && qp->options.type == QpType::ud) receive_for(core, *qp, packet);
    return;
  }
  ++core.counters.misdirected;
}

}  // namespace

void receive_frame(Core& core, Bytes frame) {
  Packet packet;
  switch (read_packet(packet, frame, core.port, core.faults)) {
    case Refusal::none: break;
    case Refusal::malformed: ++core.counters.malformed; return;
    case Refusal::icrc: ++core.counters.icrc_errors; return;
    case Refusal::not_ours:
    case Refusal::not_roce: return;
  }
  ++core.counters.received_packets;
  core.counters.received_octets += frame.size();
  const bool multicast = packet.dgid.is_multicast();
  // CA17-41: only addresses of the port's table, of the right type.
  if ((!multicast && !core.port.find(packet.dgid, packet.type)) || packet.tver != 0) {
    ++core.counters.misdirected;
    return;
  }
  core.port.learn(packet.sgid, packet.source_mac);
  constexpr std::uint32_t multicast_qpn = 0xffffff;
  if (multicast != (packet.fields.dest_qpn == multicast_qpn)) {
    ++core.counters.misdirected;
    return;
  }
  if (multicast) {
    receive_multicast(core, packet);
    return;
  }
  if (packet.op->known && packet.op->operation == Operation::congestion_notification) {
    receive_notification(core, packet);
    return;
  }
  QueuePair* qp = packet.fields.dest_qpn == 0 ? nullptr : core.qp(packet.fields.dest_qpn);
  if (!qp) {
    ++core.counters.misdirected;
    return;
  }
  receive_for(core, *qp, packet);
}

}  // namespace rdmawire::device
