#pragma once
/// For tests only: the fault script. It triggers every fault of a device and records the effects.

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "conformance/device/roce/device.hpp"
#include "conformance/device/roce/reference.hpp"

namespace rdmawire::device::testing {

class Script {
 public:
  static constexpr std::uint32_t tester_qpn = 0x100;
  static constexpr std::uint32_t all_rights = access::local_write | access::remote_write | access::remote_read |
                                              access::remote_atomic | access::mw_bind | access::flush_global |
                                              access::flush_persistent;

  Script(std::uint64_t faults_from, std::uint64_t faults_to, DeviceOptions options = reference_options())
      : device(std::move(options)) {
    Faults faults;
    for (std::uint64_t i = faults_from; i < faults_to; ++i) faults.set(static_cast<Fault>(i));
    device.set_faults(faults);
    port.mac = {2, 0, 0, 0, 0, 9};
    Gid global = device.port().gids[5].gid;
    global.bytes[15] = 9;
    port.gids = {{Gid::ipv4(0x0a000009), GidType::roce_v2},
                 {global, GidType::roce_v2},
                 {Gid::ipv4(0x0a000009), GidType::roce_v1},
                 {Gid::ipv4(0x0a000008), GidType::roce_v2}};
    for (GidEntry& entry : port.gids) entry.vlan = device.port().gids[3].vlan;
    for (const GidEntry& entry : port.gids) device.port().learn(entry.gid, port.mac);
    for (const GidEntry& entry : device.port().gids) port.learn(entry.gid, device.port().mac);
    pd = *device.alloc_pd();
    other_pd = *device.alloc_pd();
    channel = *device.create_channel();
    cq = *device.create_cq(4096, channel);
    buffer = *device.alloc(1U << 18);
    mr = *device.reg_mr(pd, buffer, 1U << 17, all_rights);
    for (std::size_t i = 0; i < 1U << 18; ++i) device.memory(buffer, 1U << 18)[i] = static_cast<std::uint8_t>(i * 7);
  }

  // Recorded effects.
  std::string wire, verbs;
  void record(std::string_view what, const std::string& value) { verbs += fmt::format("{} {}\n", what, value); }
  template <class T>
  void record_result(std::string_view what, const Result<T>& result) {
    record(what, result ? "done" : fmt::format("error {}", result.error().number));
  }

  // Time.
  void run(std::int64_t duration) {
    const std::int64_t until = now + duration;
    for (int i = 0; i < 20'000; ++i) {
      const std::int64_t next = device.wakes();
      if (next == never || std::max(next, now) > until) break;
      now = std::max(now, next);
      replay::SimulatedHostOutput output;
      device.woken(now, output);
      take(output);
    }
    now = until;
    note();
  }
  void send_bytes(const std::vector<std::uint8_t>& frame) {
    replay::SimulatedHostOutput output;
    device.arrived(frame, now, output);
    take(output);
    note();
  }

  // Packets.
  OutgoingPacket packet(std::uint32_t qp, std::uint8_t opcode, std::uint32_t psn, std::size_t payload = 0) {
    OutgoingPacket out;
    const QueuePair* to = device.qp(qp);
    out.path.dgid = Gid::ipv4(0x0a000001);
    if (to && to->is_connected() && to->attributes.path.sgid_index < device.port().gids.size())
      out.path.dgid = device.port().gids[to->attributes.path.sgid_index].gid;
    out.path.sgid_index = out.path.dgid.is_ipv4() ? 0 : 1;
    out.fields.opcode = opcode;
    out.fields.dest_qpn = to ? to->qpn : 0;
    out.fields.psn = Psn(psn);
    out.fields.ack_request = true;
    out.fields.va = mr->iova;
    out.fields.rkey = mr->key;
    out.fields.length = static_cast<std::uint32_t>(payload);
    out.fields.qkey = 0x11;
    out.fields.source_qpn = tester_qpn;
    for (std::size_t i = 0; i < payload; ++i) out.payload.push_back(static_cast<std::uint8_t>(i + psn));
    return out;
  }
  std::vector<std::uint8_t> frame(const OutgoingPacket& out) {
    return make_frame(out, port).value_or(std::vector<std::uint8_t>(60, 0));
  }
  void send(const OutgoingPacket& out) { send_bytes(frame(out)); }
  void send(std::uint32_t qp, std::uint8_t opcode, std::uint32_t psn, std::size_t payload = 0,
            const std::function<void(PacketFields&)>& change = {}) {
    OutgoingPacket out = packet(qp, opcode, psn, payload);
    if (change) change(out.fields);
    send(out);
  }

  // Queue pairs.
  struct ConnectOptions {
    QpType type = QpType::rc;
    std::uint32_t psn = 1000, receives = 4, receive_bytes = 4096, rights = all_rights & ~access::mw_bind;
    std::uint32_t depth = 4, own_depth = 4, srq = 0, xrcd = 0, recv_cq = 0, sges = 4;
    std::uint8_t timeout = 4, retries = 2, rnr_retry = 2, gid = 3;
    QpState state = QpState::rts;
    std::uint8_t traffic_class = 0, hop_limit = 64, sl = 0;
  };
  std::uint32_t connect(const ConnectOptions& wanted) {
    QueuePairOptions options{
        .type = wanted.type, .pd = pd, .send_cq = cq, .recv_cq = wanted.recv_cq ? wanted.recv_cq : cq};
    options.srq = wanted.srq;
    options.xrcd = wanted.xrcd;
    options.max_send_sge = wanted.sges;
    const auto made = device.create_qp(options);
    if (!made) return record("create", "refused"), 0;
    const std::uint32_t qp = *made;
    const bool ud = wanted.type == QpType::ud, target = wanted.type == QpType::xrc_target;
    QueuePairChange init{.state = QpState::init, .pkey_index = 0, .port = 1};
    if (ud)
      init.qkey = 0x11;
    else
      init.access = wanted.rights & ~access::local_write;
    record_result("init", device.modify_qp(qp, init));
    for (std::uint32_t i = 0; i < wanted.receives && wanted.srq == 0 && !target; ++i)
      (void)device.post_recv(qp,
                             {.id = 500 + i, .sges = {{buffer + 32'768 + i * 4096, wanted.receive_bytes, mr->key}}});
    if (wanted.state == QpState::init) return qp;
    QueuePairChange rtr{.state = QpState::rtr};
    QueuePairChange rts{.state = QpState::rts, .sq_psn = 2000};
    const bool reliable = machines::is_reliable(wanted.type);
    if (!ud) {
      rtr.path_mtu = 256;
      AddressVector path;
      path.sgid_index = wanted.gid;
      path.dgid = device.port().gids[wanted.gid].gid.is_ipv4() ? port.gids[0].gid : port.gids[1].gid;
      path.traffic_class = wanted.traffic_class;
      path.hop_limit = wanted.hop_limit;
      path.sl = wanted.sl;
      rtr.path = path;
      rtr.dest_qpn = tester_qpn;
      rtr.rq_psn = wanted.psn;
    }
    if (reliable && wanted.type != QpType::xrc_initiator) {
      rtr.max_dest_rd_atomic = wanted.depth;
      rtr.min_rnr_timer = 12;
    }
    if (reliable) rts.timeout = wanted.timeout;
    if (reliable && !target) {
      rts.retry_count = wanted.retries;
      rts.rnr_retry = wanted.rnr_retry;
      rts.max_rd_atomic = wanted.own_depth;
    }
    record_result("rtr", device.modify_qp(qp, rtr));
    if (wanted.state == QpState::rtr) return qp;
    record_result("rts", device.modify_qp(qp, rts));
    return qp;
  }
  SendRequest request(WorkOpcode opcode, std::uint32_t bytes = 8, std::uint64_t offset = 0) {
    SendRequest request{.id = ++last_id, .opcode = opcode, .sges = {{buffer + offset, bytes, mr->key}}};
    request.remote_address = 0x5000;
    request.rkey = 0x77;
    return request;
  }
  void post(std::uint32_t qp, SendRequest request) { record_result("post", device.post_send(qp, std::move(request))); }
  void notify(bool solicited) { record_result("notify", device.req_notify_cq(cq, solicited)); }
  void record_memory(std::uint64_t offset, std::size_t bytes) {
    const Bytes found = device.memory(buffer + offset, bytes);
    record("memory", rpc::to_hex(found.data(), found.size()));
  }
  void record_queue_pair(std::uint32_t qp) {
    const QueuePair* found = device.qp(qp);
    record("state", found ? machines::to_string(found->state) : "gone");
    if (found) record("receives", std::to_string(found->receives.size()));
  }

  Device device;
  Port port;
  std::uint32_t pd, other_pd, channel, cq;
  std::uint64_t buffer;
  const Region* mr;
  std::int64_t now = 0;
  std::uint64_t last_id = 0;

 private:
  void take(replay::SimulatedHostOutput& output) {
    for (const auto& sent : output.frames) wire += fmt::format("{} {}\n", now, rpc::to_hex(sent.bytes));
  }
  void note() {
    const auto done = device.poll_cq(cq, 4096);
    if (done)
      for (const Completion& c : *done)
        verbs += fmt::format("{} completion {} {} {} {} {} {} {}\n", now, c.id, static_cast<int>(c.status),
                             static_cast<int>(c.opcode), c.bytes, c.has_immediate, c.immediate, c.source_qpn);
    while (const auto event = device.get_async_event())
      verbs += fmt::format("event {} {}\n", static_cast<int>(event->type), event->object);
    for (auto next_event = device.get_cq_event(channel); next_event && *next_event;
         next_event = device.get_cq_event(channel))
      verbs += fmt::format("notified {}\n", **next_event);
  }
};

/// Run all parts of the script in sequence.
void play(Script& script);

}  // namespace rdmawire::device::testing
