/// Congestion control: notification point and reaction point. CA17-44 to CA17-46, A17.9.3.

#include "conformance/device/roce/core.hpp"

namespace rdmawire::device {

namespace {

bool is_duplicate(const QueuePair& qp, const Packet& packet) {
  return qp.is_reliable() && !packet.is_response() &&
         qp.responder.state.window.place(packet.fields.psn) == machines::RequestPlace::duplicate;
}

}  // namespace

void notify(Core& core, QueuePair& qp, const Packet& packet) {
  if (core.control.size() >= Core::most_control) return;
  const CongestionDecisions& decisions = core.decisions.congestion;
  decisions.send_cnp(core, decisions.cnp(core, qp, packet));
  ++core.counters.cnps_sent;
}

void notice_mark(Core& core, QueuePair& qp, const Packet& packet) {
  ++core.counters.ecn_marked;
  if (!core.decisions.congestion.notices_marks(core)) return;
  machines::NotificationPoint& point = core.decisions.congestion.pacing(core, qp);
  if (!point.notifies(core.now)) return;
  point = machines::NotificationPoint::notified(core.now, core.options.cnp_interval);
  notify(core, qp, packet);
}

void slow_down(Core& core, QueuePair& qp) {
  qp.rate =
      machines::notified(machines::passed(qp.rate, core.now, core.options.reaction), core.now, core.options.reaction);
}

void receive_notification(Core& core, const Packet& packet) {
  QueuePair* qp = core.qp(packet.fields.dest_qpn);
  if (!qp || !core.decisions.congestion.obeys(core, *qp, packet)) {
    ++core.counters.cnps_ignored;
    return;
  }
  ++core.counters.cnps_handled;
  core.decisions.congestion.handle_cnp(core, *qp, packet);
}

namespace conforming {

void observe_congestion(Core& core, QueuePair& qp, const Packet& packet) {
  if (packet.congestion_experienced() && !is_duplicate(qp, packet)) notice_mark(core, qp, packet);
}

OutgoingPacket cnp(const Core& core, const QueuePair& qp, const Packet& packet) {
  constexpr std::uint8_t notification = 0x81;
  OutgoingPacket cnp = packet_of(core, qp, notification, Psn(0));
  cnp.ecn = 0;
  cnp.fields.pkey = packet.fields.pkey;
  cnp.fields.migrated = false;  // A17.9.3, figure 6: M is 0
  if (!qp.is_connected()) {
    cnp.path.dgid = packet.sgid;
    cnp.path.sgid_index = core.port.find(packet.dgid, packet.type, packet.vlan).value_or(0);
    cnp.fields.dest_qpn = packet.fields.source_qpn;
  }
  return cnp;
}

void send_cnp(Core& core, OutgoingPacket cnp) { core.control.push_back(std::move(cnp)); }

bool notices_marks(const Core& core) { return core.options.congestion_control; }

machines::NotificationPoint& pacing(Core& /*core*/, QueuePair& qp) { return qp.notification; }

bool obeys(const Core& core, const QueuePair& qp, const Packet& packet) {
  return core.options.congestion_control && packet.fields.dest_qpn > 1 &&
         (!qp.is_connected() || packet.sgid == qp.attributes.path.dgid) &&
         pkeys_match(packet.fields.pkey, core.pkey_of(qp));
}

void handle_cnp(Core& core, QueuePair& qp, const Packet& /*packet*/) { slow_down(core, qp); }

machines::ReactionPoint rate_now(const Core& core, const QueuePair& qp) {
  return machines::passed(qp.rate, core.now, core.options.reaction);
}

}  // namespace conforming

}  // namespace rdmawire::device
