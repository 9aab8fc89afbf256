/// QP 1 (GSI) of the device, if no application owns it. IBTA vol 1, 9.6.1.4.1, C9-42, chapter 13.

#include <algorithm>

#include "conformance/device/roce/cm_messages.hpp"
#include "conformance/device/roce/core.hpp"
#include "dissectors/machines/ud.hpp"
#include "dissectors/protocol/mad.hpp"

namespace rdmawire::device {

namespace {

void answer(Core& core, const Packet& packet, std::vector<std::uint8_t> mad) {
  send_mad(core, way_back(core, packet), std::move(mad));
}

}  // namespace

CmPath way_back(const Core& core, const Packet& packet) {
  CmPath way;
  way.path.dgid = packet.sgid;
  way.path.sgid_index = core.port.find(packet.dgid, packet.type, packet.vlan).value_or(0);
  way.path.sl = packet.sl;
  way.pkey = packet.fields.pkey;
  way.qpn = packet.fields.source_qpn;
  return way;
}

void send_mad(Core& core, const CmPath& way, std::vector<std::uint8_t> mad) {
  if (core.control.size() >= Core::most_control) return;
  core.control.push_back(core.decisions.management.datagram(core, way, std::move(mad)));
  core.has_work = true;
}

void receive_management(Core& core, const Packet& packet) {
  const Opcode& op = *packet.op;
  if (!op.known || op.transport != Transport::ud || op.operation != Operation::send) {
    ++core.counters.misdirected;
    return;
  }
  const ValidationDecisions& validation = core.decisions.validation;
  if (!core.decisions.management.accepts_pkey(core, packet.fields.pkey)) {
    validation.count_violation(core.counters.bad_pkeys);
    return;
  }
  if (!core.decisions.management.accepts_qkey(packet.fields.qkey)) {
    validation.count_violation(core.counters.qkey_violations);
    return;
  }
  // A management datagram must have 256 bytes: C13-3.
  if (packet.payload.size() != Mad::whole || packet.payload[0] != Mad::version) {
    ++core.counters.malformed;
    return;
  }
  constexpr std::uint8_t cm_version = 2, unsupported_version = 31;
  if (packet.payload[1] != management_class::communication) return;  // no other management class is supported
  const std::uint8_t method = packet.payload[3];
  if (method == mad_method::get || method == mad_method::set)
    return answer(core, packet, class_port_info(packet.payload, core.options.cm));
  if (method != mad_method::send) return;
  if (packet.payload[2] == cm_version) return receive_cm(core, packet);
  const CmIncoming message = read_cm(packet.payload);
  constexpr std::uint8_t highest[] = {cm_version};
  if (message.attribute == cm_attribute::req)
    answer(core, packet, rejection_of(0, message.local_id, message.transaction, 0, unsupported_version, {}, highest));
}

namespace conforming {

bool accepts_gsi_pkey(const Core& core, std::uint16_t pkey) {
  return std::ranges::any_of(core.port.pkeys, [&](std::uint16_t entry) { return pkeys_match(pkey, entry); });
}

bool accepts_gsi_qkey(std::uint32_t qkey) { return qkey == machines::gsi_qkey; }

OutgoingPacket management_datagram(Core& core, const CmPath& way, std::vector<std::uint8_t> mad) {
  constexpr std::uint8_t ud_send_only = 0x64;
  OutgoingPacket packet;
  packet.path = way.path;
  packet.fields.opcode = ud_send_only;
  packet.fields.pkey = way.pkey;
  packet.fields.dest_qpn = way.qpn;
  packet.fields.psn = Psn(core.cm.datagrams++);
  packet.fields.qkey = machines::gsi_qkey;
  packet.fields.source_qpn = 1;
  packet.payload = std::move(mad);
  return packet;
}

}  // namespace conforming

}  // namespace rdmawire::device
