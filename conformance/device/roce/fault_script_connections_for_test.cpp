/// Part of the fault script: connections through the communication manager.

#include "conformance/device/roce/cm_messages.hpp"
#include "conformance/device/roce/fault_script_parts_for_test.hpp"

namespace rdmawire::device::testing::parts {

namespace {

const CmSettings settings;

void send_mad(Script& s, std::vector<std::uint8_t> mad) {
  OutgoingPacket out;
  out.fields.opcode = 0x64;
  out.fields.dest_qpn = out.fields.source_qpn = 1;
  out.fields.qkey = 0x80010000;
  out.path.dgid = Gid::ipv4(0x0a000001);
  out.payload = std::move(mad);
  s.send(out);
}

/// The tester's endpoint of a connection.
CmConnection end_of(Script& s, std::uint32_t id, std::uint32_t remote_id = 0) {
  CmConnection end;
  end.id = id;
  end.remote_id = remote_id;
  end.guid = 0x77;
  end.transaction = id;
  end.starting_psn = 300;
  end.own.qpn = Script::tester_qpn;
  end.own.ack_timeout = 6;
  end.own.responder_resources = end.own.initiator_depth = 4;
  end.local = {s.port.gids[0].gid, 1000};
  end.remote = {Gid::ipv4(0x0a000001), 7};
  end.data_path.dgid = end.remote.address;
  return end;
}

std::optional<CmEvent> next_event(Script& s) {
  const auto event = s.device.get_cm_event();
  s.record("cm", event ? std::to_string(static_cast<int>(event->type)) : "nothing");
  return event;
}

void accept_connection(Script& s) {
  s.record_result("listen", s.device.cm_listen({{}, 7}, 4));
  const std::vector<std::uint8_t> request = request_of(end_of(s, 0x11), settings, 1, true, s.port.gids[0].gid);
  send_mad(s, request);
  const auto request_event = next_event(s);
  if (request_event) {
    CmParameters with;
    with.qp = *s.device.create_qp({.type = QpType::rc, .pd = s.pd, .send_cq = s.cq, .recv_cq = s.cq});
    s.record_result("accept", s.device.cm_accept(request_event->cm_id, with));
    s.run(20 * us);
    const CmConnection end = end_of(s, 0x11, request_event->connection);
    send_mad(s, short_of(end, cm_attribute::rtu, end.transaction));
    s.post(with.qp, s.request(WorkOpcode::write));
    s.run(2 * ms);
    send_mad(s, disconnect_of(end));
    s.send(with.qp, 0x0a, s.device.qp(with.qp)->attributes.rq_psn, 8);
    s.run(20 * us);
  }
  // Send a REQ with LIDs, which RoCE must ignore.
  std::vector<std::uint8_t> by_lid = request_of(end_of(s, 0x12), settings, 1, true, s.port.gids[0].gid);
  constexpr std::size_t remote_lid_at = 24 + 54;
  by_lid[remote_lid_at] = 0;
  send_mad(s, by_lid);
  s.run(20 * us);
  while (next_event(s))
    ;
}

void open_connections(Script& s) {
  CmParameters with;
  with.qpn = 0x55;
  const auto silent = s.device.cm_connect({s.port.gids[1].gid, 9}, {}, with);
  s.record_result("connect", silent);
  s.run(6000 * ms);
  while (next_event(s))
    ;
  const auto patient = s.device.cm_connect({s.port.gids[0].gid, 9}, {}, with);
  s.record_result("connect", patient);
  s.run(20 * us);
  if (const auto event = next_event(s)) send_mad(s, mra_of(end_of(s, 0x13, event->connection), settings));
  s.run(9000 * ms);
  while (next_event(s))
    ;
}

}  // namespace

void connections(Script& s) {
  accept_connection(s);
  open_connections(s);
}

}  // namespace rdmawire::device::testing::parts
