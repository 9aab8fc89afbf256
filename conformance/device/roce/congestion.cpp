/// Congestion control: notification point and reaction point. CA17-44 to CA17-46, A17.9.3.

#include "conformance/device/roce/core.hpp"

namespace rdmawire::device {

void notify(Core& core, QueuePair& qp, const Packet& packet) {
  constexpr std::uint8_t notification = 0x81;
  if (core.control.size() >= Core::most_control) return;
  OutgoingPacket cnp = packet_of(core, qp, notification, Psn(0));
  cnp.ecn = core.faults[Fault::cnp_ecn_capable] ? 2 : 0;
  cnp.fields.pkey = packet.fields.pkey;
  cnp.fields.migrated = false;  // Figure 6: M 0
  if (core.faults[Fault::cnp_with_psn]) {
    cnp.fields.psn = packet.fields.psn;
    cnp.fields.cnp_reserved = 1;
  }
  if (!qp.is_connected()) {
    cnp.path.dgid = packet.sgid;
    cnp.path.sgid_index = core.port.find(packet.dgid, packet.type, packet.vlan).value_or(0);
    cnp.fields.dest_qpn = packet.fields.source_qpn;
  }
  if (core.faults[Fault::two_cnps_a_mark]) core.control.push_back(cnp);
  core.control.push_back(std::move(cnp));
  ++core.counters.cnps_sent;
}

void notice_mark(Core& core, QueuePair& qp, const Packet& packet) {
  ++core.counters.ecn_marked;
  if (!core.options.congestion_control || core.faults[Fault::never_notifies]) return;
  machines::NotificationPoint& point = core.faults[Fault::paces_by_port] ? core.notification : qp.notification;
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
  bool concerns = qp && core.options.congestion_control && packet.fields.dest_qpn > 1 &&
                  (!qp->is_connected() || packet.sgid == qp->attributes.path.dgid) &&
                  pkeys_match(packet.fields.pkey, core.pkey_of(*qp));
  if (packet.fields.cnp_reserved != 0 && core.faults[Fault::minds_cnp_reserved]) concerns = false;
  if (!concerns) {
    ++core.counters.cnps_ignored;
    return;
  }
  ++core.counters.cnps_handled;
  if (packet.congestion_experienced() && core.faults[Fault::cnp_for_cnp]) notice_mark(core, *qp, packet);
  if (!core.faults[Fault::ignores_cnp]) slow_down(core, *qp);
}

}  // namespace rdmawire::device
