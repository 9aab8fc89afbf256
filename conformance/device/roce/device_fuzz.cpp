/// Fuzz target: random verbs calls and frames must not crash or hang the device, or exhaust its memory.

#include <algorithm>
#include <cstdint>

#include "conformance/device/roce/cm_messages.hpp"
#include "conformance/device/roce/input_for_test.hpp"
#include "conformance/device/roce/reference.hpp"
#include "conformance/device/roce/rpc_handler.hpp"

namespace rdmawire::device {

using testing::Input;

namespace {

/// A device with one queue pair of each service, connected to a tester.
struct FuzzFixture {
  FuzzFixture() : device(reference_options()) {
    tester.mac = {2, 0, 0, 0, 0, 9};
    tester.gids = {{Gid::ipv4(0x0a000009), GidType::roce_v2}};
    device.port().learn(tester.gids[0].gid, tester.mac);
    tester.learn(Gid::ipv4(0x0a000001), device.port().mac);
    pd = *device.alloc_pd();
    cq = *device.create_cq(64);
    listener = device.cm_listen({{}, 7}, 4)->cm_id;
    buffer = *device.alloc(65'536);
    region = *device.reg_mr(pd, buffer, 65'536, access::all & ~access::zero_based);
    const auto xrcd = *device.open_xrcd();
    srq = *device.create_srq(pd, 32, 4, 2, xrcd, cq);
    for (const QpType type : machines::queue_pair_services) {
      QueuePairOptions options{.type = type, .pd = pd, .send_cq = cq, .recv_cq = cq};
      options.xrcd = type == QpType::xrc_target ? xrcd : 0;
      qps.push_back(*device.create_qp(options));
      for (const QpState state : {QpState::init, QpState::rtr, QpState::rts}) advance(qps.back(), state);
    }
  }
  void advance(std::uint32_t qp, QpState state) {
    const QpType type = device.qp(qp)->options.type;
    QueuePairChange all;
    AddressVector path;
    path.sgid_index = 3;
    path.dgid = tester.gids[0].gid;
    all.pkey_index = 0;
    all.port = 1;
    all.access = access::all & ~(access::zero_based | access::mw_bind | access::local_write);
    all.qkey = 0x11;
    all.path = path;
    all.path_mtu = 256;
    all.dest_qpn = 0x100;
    all.rq_psn = 1000;
    all.sq_psn = 2000;
    all.max_rd_atomic = all.max_dest_rd_atomic = 4;
    all.min_rnr_timer = 1;
    all.timeout = 4;
    all.retry_count = all.rnr_retry = 3;
    const auto needed = machines::transition(type, device.qp(qp)->state, state).required;
    using enum machines::QueuePairAttribute;
    const auto keep = [&](auto& value, machines::QueuePairAttribute attribute) {
      if (!needed.contains(attribute)) value.reset();
    };
    keep(all.pkey_index, pkey_index);
    keep(all.port, port);
    keep(all.access, access_flags);
    keep(all.qkey, qkey);
    keep(all.path, address_vector);
    keep(all.path_mtu, path_mtu);
    keep(all.dest_qpn, destination_qpn);
    keep(all.rq_psn, rq_psn);
    keep(all.sq_psn, sq_psn);
    keep(all.max_rd_atomic, max_rd_atomic);
    keep(all.max_dest_rd_atomic, max_dest_rd_atomic);
    keep(all.min_rnr_timer, min_rnr_timer);
    keep(all.timeout, timeout);
    keep(all.retry_count, retry_count);
    keep(all.rnr_retry, rnr_retry);
    all.state = state;
    (void)device.modify_qp(qp, all);
  }
  void run(std::int64_t duration) {
    const std::int64_t until = now + duration;
    for (int i = 0; i < 64 && device.wakes() <= until; ++i) {
      now = std::max(now, device.wakes());
      replay::SimulatedHostOutput output;
      device.woken(now, output);
    }
    now = std::max(now, until);
  }
  void arrives(Bytes frame) {
    replay::SimulatedHostOutput output;
    device.arrived(frame, now, output);
  }

  Device device;
  Port tester;
  std::uint32_t pd, cq, srq;
  std::uint64_t buffer;
  const Region* region;
  std::vector<std::uint32_t> qps;
  std::uint32_t listener = 0;
  std::vector<CmEvent> events;  ///< events of the communication manager
  std::int64_t now = 0;
};

void packet(FuzzFixture& fixture, Input& input) {
  const std::uint32_t qp = fixture.qps[input.byte() % fixture.qps.size()];
  const QueuePair* to = fixture.device.qp(qp);
  OutgoingPacket out;
  out.path.dgid = Gid::ipv4(0x0a000001);
  out.fields.opcode = input.byte();
  out.fields.dest_qpn = to ? to->qpn : 0;
  const unsigned how = input.byte();
  // Use a PSN close to the expected PSN in most cases.
  const Psn base = to && (how & 1) != 0                   ? to->requester.window.oldest
                   : to && to->options.type == QpType::uc ? to->responder.uc.window.expected
                   : to                                   ? to->responder.state.window.expected
                                                          : Psn(0);
  out.fields.psn = base + static_cast<std::int8_t>(input.byte());
  out.fields.ack_request = (how & 2) != 0;
  out.fields.solicited = (how & 4) != 0;
  out.fields.rkey = (how & 8) != 0 ? input.number() : fixture.region->key;
  out.fields.va = fixture.buffer + input.number();
  out.fields.length = (how & 16) != 0 ? input.number() : input.byte();
  out.fields.syndrome = input.byte();
  out.fields.msn = input.byte();
  out.fields.qkey = 0x11;
  out.fields.placement = input.byte();
  out.fields.selectivity = static_cast<std::uint8_t>(how >> 5);
  out.fields.xrc_srq = fixture.device.srq(fixture.srq) ? fixture.device.srq(fixture.srq)->number : 0;
  out.fields.immediate = fixture.region->key;
  out.ecn = static_cast<std::uint8_t>(how >> 6);
  const Bytes payload = input.take((how & 32) != 0 ? 256 : input.byte());
  out.payload.assign(payload.begin(), payload.end());
  if (const auto frame = make_frame(out, fixture.tester)) fixture.arrives(*frame);
}

void work(FuzzFixture& fixture, Input& input) {
  const std::uint32_t qp = fixture.qps[input.byte() % fixture.qps.size()];
  const Sge sge{fixture.buffer + input.number(), input.number(), fixture.region->key};
  if (input.byte() % 3 == 0) {
    (void)fixture.device.post_recv(qp, {.id = 1, .sges = {sge}});
    (void)fixture.device.post_srq_recv(fixture.srq, {.id = 2, .sges = {sge}});
    return;
  }
  SendRequest asked{.id = 3, .opcode = static_cast<WorkOpcode>(input.byte() % 14), .sges = {sge}};
  asked.fence = input.byte() % 2 == 0;
  asked.remote_address = fixture.buffer;
  asked.rkey = fixture.region->key;
  asked.region = fixture.region->handle;
  asked.new_key = input.byte();
  (void)fixture.device.post_send(qp, asked);
}

/// Return a connection of the tester that uses IDs from received events.
CmConnection tester_end(const FuzzFixture& fixture, Input& input) {
  CmConnection end;
  end.id = 1 + input.byte() % 4U;
  if (!fixture.events.empty()) end.remote_id = fixture.events[input.byte() % fixture.events.size()].connection;
  end.guid = 0x77;
  end.transaction = end.id;
  end.own.qpn = 0x100 + end.id;
  end.local = {fixture.tester.gids[0].gid, 1000};
  end.remote = {Gid::ipv4(0x0a000001), 7};
  end.data_path.dgid = end.remote.address;
  return end;
}

/// Send a CM message with some modified bytes to QP 1.
void management(FuzzFixture& fixture, Input& input) {
  const CmSettings settings;
  const CmConnection end = tester_end(fixture, input);
  OutgoingPacket out;
  switch (input.byte() % 8) {
    case 0: out.payload = request_of(end, settings, 1, true, fixture.tester.gids[0].gid); break;
    case 1: out.payload = reply_of(end, settings); break;
    case 2: out.payload = short_of(end, cm_attribute::rtu, end.transaction); break;
    case 3: out.payload = disconnect_of(end); break;
    case 4: out.payload = short_of(end, cm_attribute::drep, end.transaction); break;
    case 5: out.payload = mra_of(end, settings); break;
    case 6: out.payload = rejection_of(end.id, end.remote_id, end.transaction, 0, input.byte()); break;
    default: out.payload = short_of(end, static_cast<std::uint16_t>(input.byte() % 0x20), end.transaction); break;
  }
  for (unsigned changes = input.byte() % 4U; changes > 0; --changes) out.payload[input.byte()] = input.byte();
  out.fields.opcode = 0x64;
  out.fields.dest_qpn = out.fields.source_qpn = 1;
  out.fields.qkey = 0x80010000;
  out.path.dgid = Gid::ipv4(0x0a000001);
  if (const auto frame = make_frame(out, fixture.tester)) fixture.arrives(*frame);
}

void connections(FuzzFixture& fixture, Input& input) {
  while (const auto event = fixture.device.get_cm_event())
    if (fixture.events.size() < 64) fixture.events.push_back(*event);
  const std::uint32_t id = fixture.events.empty() ? 0 : fixture.events[input.byte() % fixture.events.size()].cm_id;
  CmParameters with;
  with.qp = fixture.qps[input.byte() % fixture.qps.size()];
  if (input.byte() % 2 == 0) (void)fixture.device.modify_qp(with.qp, {.state = QpState::reset});
  switch (input.byte() % 6) {
    case 0: (void)fixture.device.cm_connect({fixture.tester.gids[0].gid, 9}, {}, with); break;
    case 1: (void)fixture.device.cm_accept(id, with); break;
    case 2: (void)fixture.device.cm_reject(id, {}); break;
    case 3: (void)fixture.device.cm_disconnect(id); break;
    case 4: (void)fixture.device.cm_destroy(id); break;
    default: (void)fixture.device.cm_establish(id); break;
  }
}

void verbs(FuzzFixture& fixture, Input& input) {
  const std::uint32_t qp = fixture.qps[input.byte() % fixture.qps.size()];
  switch (input.byte() % 4) {
    case 0: fixture.advance(qp, static_cast<QpState>(input.byte() % 7)); break;
    case 1: (void)fixture.device.poll_cq(fixture.cq, input.byte()); break;
    case 2: (void)fixture.device.req_notify_cq(fixture.cq, false); break;
    default:
      while (fixture.device.get_async_event()) {
      }
  }
}

}  // namespace
}  // namespace rdmawire::device

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace rdmawire::device;
  Input input({data, std::min<std::size_t>(size, 4096)});
  FuzzFixture fixture;
  std::size_t fault = input.byte();
  if (fault == 255) fault += input.byte();  // a byte has fewer values than there are faults
  if (fault < fault_count) {
    Faults faults;
    faults.set(static_cast<Fault>(fault));
    fixture.device.set_faults(faults);
  }
  while (!input.empty()) {
    const std::uint8_t what = input.byte();
    if (what >= 250) {
      if (what % 2 == 0)
        management(fixture, input);
      else
        connections(fixture, input);
      continue;
    }
    switch (what % 5) {
      case 0: packet(fixture, input); break;
      case 1: work(fixture, input); break;
      case 2: verbs(fixture, input); break;
      case 3: fixture.arrives(input.take(input.byte())); break;
      default: fixture.run(std::int64_t{input.byte()} * 1000); break;
    }
  }
  fixture.run(1'000'000);
  return 0;
}
