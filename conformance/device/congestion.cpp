/// Both ends of congestion control. CA17-44 to CA17-46, A17.9.3.

#include "conformance/device/core.hpp"

namespace rdmawire::device {

void notice_mark(Core& core, QueuePair& qp, const Packet& packet) {
  ++core.counters.ecn_marked;
  if (!core.options.congestion_control || core.control.size() >= Core::most_control) return;
  if (!qp.notification.notifies(core.now)) return;
  qp.notification = machines::NotificationPoint::notified(core.now, core.options.cnp_interval);
  constexpr std::uint8_t notification = 0x81;
  OutgoingPacket cnp = packet_of(core, qp, notification, Psn(0));
  cnp.ecn = 0;
  cnp.fields.pkey = packet.fields.pkey;
  if (!qp.is_connected()) {
    cnp.path.dgid = packet.sgid;
    cnp.path.sgid_index = core.port.find(packet.dgid, packet.type).value_or(0);
    cnp.fields.dest_qpn = packet.fields.source_qpn;
  }
  core.control.push_back(std::move(cnp));
  ++core.counters.cnps_sent;
}

void receive_notification(Core& core, const Packet& packet) {
  QueuePair* qp = core.qp(packet.fields.dest_qpn);
  const bool concerns = qp && core.options.congestion_control && packet.fields.dest_qpn > 1 &&
                        (!qp->is_connected() || packet.sgid == qp->attributes.path.dgid);
  if (!concerns || !pkeys_match(packet.fields.pkey, core.pkey_of(*qp))) {
    ++core.counters.cnps_ignored;
    return;
  }
  ++core.counters.cnps_handled;
  qp->rate =
      machines::notified(machines::passed(qp->rate, core.now, core.options.reaction), core.now, core.options.reaction);
}

}  // namespace rdmawire::device
