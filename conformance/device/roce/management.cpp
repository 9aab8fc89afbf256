/// QP 1 (GSI) of the device, while no application owns it. IBTA vol 1, 9.6.1.4.1, C9-42, chapter 13.

#include "conformance/device/roce/cm_messages.hpp"
#include "conformance/device/roce/core.hpp"
#include "dissectors/machines/ud.hpp"
#include "dissectors/protocol/mad.hpp"

namespace rdmawire::device {

namespace {

bool in_partition(const Core& core, std::uint16_t pkey) {
  if (core.faults[Fault::ignores_pkey]) return true;
  const std::size_t entries = core.faults[Fault::qp1_pkey_of_entry_0] ? 1 : core.port.pkeys.size();
  for (std::size_t i = 0; i < entries; ++i)
    if (pkeys_match(pkey, core.port.pkeys[i])) return true;
  return false;
}

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

namespace {

/// Fault: replace the path by an IPv4 path to the same neighbor.
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

}  // namespace

void send_mad(Core& core, const CmPath& way, std::vector<std::uint8_t> mad) {
  constexpr std::uint8_t ud_send_only = 0x64;
  if (core.control.size() >= Core::most_control) return;
  OutgoingPacket packet;
  packet.fields.opcode = ud_send_only;
  packet.fields.pkey = way.pkey;
  packet.fields.dest_qpn = way.qpn;
  packet.fields.psn = Psn(core.cm.datagrams++);
  packet.fields.qkey = machines::gsi_qkey;
  packet.fields.source_qpn = 1;
  packet.payload = std::move(mad);
  packet.path = way.path;
  if (core.faults[Fault::short_mads])
    while (packet.payload.size() > Mad::size && packet.payload.back() == 0) packet.payload.pop_back();
  if (core.faults[Fault::cm_over_ipv4_alone]) go_over_ipv4(core, packet.path);
  core.control.push_back(std::move(packet));
  core.has_work = true;
}

void receive_management(Core& core, const Packet& packet) {
  const Opcode& op = *packet.op;
  if (!op.known || op.transport != Transport::ud || op.operation != Operation::send) {
    ++core.counters.misdirected;
    return;
  }
  if (!in_partition(core, packet.fields.pkey)) {
    Counters::count_16(core.counters.bad_pkeys, core.faults[Fault::port_counters_wrap]);
    return;
  }
  const bool any_qkey = core.faults[Fault::qp1_takes_any_qkey] || core.faults[Fault::ignores_qkey];
  if (packet.fields.qkey != machines::gsi_qkey && !any_qkey) {
    Counters::count_16(core.counters.qkey_violations, core.faults[Fault::port_counters_wrap]);
    return;
  }
  // C13-3: a management datagram has 256 bytes.
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

}  // namespace rdmawire::device
