/// Checks of received frames before they reach a queue pair. IBTA vol 1, 9.6.1, A17.4.

#include "conformance/device/roce/core.hpp"

namespace rdmawire::device {

namespace {

constexpr std::uint32_t multicast_qpn = 0xffffff;

/// Process a packet that the queue pair accepts.
void process(Core& core, QueuePair& qp, const Packet& packet) {
  core.decisions.congestion.observe(core, qp, packet);
  switch (qp.options.type) {
    case QpType::uc: receive_unreliable(core, qp, packet); break;
    case QpType::ud: receive_datagram(core, qp, packet); break;
    case QpType::xrc_initiator:
      if (packet.is_response()) receive_response(core, qp, packet);
      break;
    case QpType::xrc_target:
      if (!packet.is_response()) receive_request(core, qp, packet);
      break;
    case QpType::rc:
      if (packet.is_response())
        receive_response(core, qp, packet);
      else
        receive_request(core, qp, packet);
      break;
  }
}

void receive_multicast(Core& core, const Packet& packet) {
  for (const Group& group : core.groups) {
    if (group.gid != packet.dgid) continue;
    for (const std::uint32_t qpn : core.decisions.validation.receivers_of(group)) {
      QueuePair* qp = core.qp(qpn);
      if (qp && qp->options.type == QpType::ud) core.decisions.validation.receive_for(core, *qp, packet);
    }
    return;
  }
  ++core.counters.misdirected;
}

/// Pass a packet with acceptable headers to its queue pair, or drop it.
void receive_packet(Core& core, const Packet& packet) {
  if (packet.dgid.is_multicast() && packet.fields.dest_qpn == multicast_qpn) {
    receive_multicast(core, packet);
    return;
  }
  if (packet.op->known && packet.op->operation == Operation::congestion_notification) {
    receive_notification(core, packet);
    return;
  }
  QueuePair* qp = packet.fields.dest_qpn == 0 ? nullptr : core.qp(packet.fields.dest_qpn);
  if (qp)
    core.decisions.validation.receive_for(core, *qp, packet);
  else if (packet.fields.dest_qpn == 1)
    receive_management(core, packet);
  else
    core.decisions.validation.drop_unknown(core, packet);
}

}  // namespace

void receive_frame(Core& core, Bytes frame) {
  Packet packet;
  if (const Refusal refusal = core.decisions.decoding.read(core, packet, frame); refusal != Refusal::none) {
    core.decisions.validation.drop_frame(core, packet, refusal);
    return;
  }
  ++core.counters.received_packets;
  core.counters.received_bytes += frame.size();
  if (!core.decisions.validation.accepts_headers(core, packet)) {
    ++core.counters.misdirected;
    return;
  }
  core.port.learn(packet.sgid, packet.source_mac);
  receive_packet(core, packet);
}

namespace conforming {

void drop_frame(Core& core, const Packet& /*packet*/, Refusal refusal) {
  if (refusal == Refusal::malformed) ++core.counters.malformed;
  if (refusal == Refusal::icrc) ++core.counters.icrc_errors;
}

bool is_own_address(const Core& core, const Packet& packet) {
  return packet.dgid.is_multicast() || core.port.find(packet.dgid, packet.type, packet.vlan);
}

bool accepts_header_version(const Packet& packet) { return packet.tver == 0; }

bool accepts_destination_qpn(const Packet& packet) {
  return packet.dgid.is_multicast() == (packet.fields.dest_qpn == multicast_qpn);
}

bool accepts_headers(const Core& core, const Packet& packet) {
  const ValidationDecisions& decisions = core.decisions.validation;
  return decisions.is_own_address(core, packet) && decisions.accepts_header_version(packet) &&
         decisions.accepts_destination_qpn(packet);
}

void drop_unknown(Core& core, const Packet& /*packet*/) { ++core.counters.misdirected; }

std::vector<std::uint32_t> receivers_of(const Group& group) { return group.qpns; }

void receive_for(Core& core, QueuePair& qp, const Packet& packet) {
  const ValidationDecisions& decisions = core.decisions.validation;
  if (!decisions.accepts_packets(qp)) {
    decisions.drop_in_state(core, qp, packet);
    return;
  }
  const bool from_peer = decisions.accepts_source(qp, packet) && decisions.accepts_version(core, qp, packet) &&
                         decisions.accepts_destination(core, qp, packet);
  if (packet.op->transport != qp.transport() || !from_peer) {
    ++core.counters.misdirected;
    return;
  }
  if (!decisions.accepts_pkey(core, qp, packet.fields.pkey)) {
    decisions.count_violation(core.counters.bad_pkeys);
    return;
  }
  if (!decisions.accepts_qkey(qp, packet.fields.qkey)) {
    decisions.count_violation(core.counters.qkey_violations);
    return;
  }
  process(core, qp, packet);
}

bool accepts_packets(const QueuePair& qp) { return qp.takes_requests() || qp.takes_responses(); }

void drop_in_state(Core& core, QueuePair& /*qp*/, const Packet& /*packet*/) { ++core.counters.misdirected; }

bool accepts_source(const QueuePair& qp, const Packet& packet) {
  return !qp.is_connected() || packet.sgid == qp.attributes.path.dgid;
}

bool accepts_version(const Core& core, const QueuePair& qp, const Packet& packet) {
  return !qp.is_connected() || packet.type == core.port.gids[qp.attributes.path.sgid_index].type;
}

bool accepts_destination(const Core& core, const QueuePair& qp, const Packet& packet) {
  if (!qp.is_connected()) return true;
  const GidEntry& own = core.port.gids[qp.attributes.path.sgid_index];
  return packet.dgid == own.gid && packet.vlan == own.vlan;
}

bool accepts_pkey(const Core& core, const QueuePair& qp, std::uint16_t pkey) {
  return qp.qpn == 1 ? core.decisions.management.accepts_pkey(core, pkey) : pkeys_match(pkey, core.pkey_of(qp));
}

bool accepts_qkey(const QueuePair& qp, std::uint32_t qkey) { return qp.is_connected() || qkey == qp.attributes.qkey; }

void count_violation(std::uint64_t& counter) {
  if (counter < 0xffff) ++counter;
}

}  // namespace conforming

}  // namespace rdmawire::device
