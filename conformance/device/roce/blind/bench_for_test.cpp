#include "conformance/device/roce/blind/bench_for_test.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "conformance/device/roce/requester.hpp"

namespace rdmawire::device::testing {

namespace {

constexpr std::uint8_t device_entries[] = {3, 5, 7};  // in the GID table of reference_options()

Gid global(std::uint8_t number) { return {{0xfd, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, number}}; }

}  // namespace

Bench::Bench(const RoceBlindFault* fault, const Setup& with)
    : setup(with), device(reference_options()), psn(with.rq_psn) {
  if (fault) device.set_blind_faults({fault});
  peer.mac = {0x02, 0, 0, 0, 0, 2};
  peer.gids = {{Gid::ipv4(0x0a000002), GidType::roce_v2},
               {global(2), GidType::roce_v2},
               {Gid::ipv4(0x0a000702), GidType::roce_v2, 7}};
  for (std::size_t i = 0; i < peer.gids.size(); ++i) {
    device.port().learn(peer.gids[i].gid, peer.mac);
    peer.learn(device.port().gids[device_entries[i]].gid, device.port().mac);
  }
  pd = *device.alloc_pd();
  channel = *device.create_channel();
  cq = *device.create_cq(1024, channel);
  buffer = *device.alloc(memory);
  region = *device.reg_mr(pd, buffer, memory, rights);
  if (setup.type == QpType::xrc_target) xrcd = *device.open_xrcd();
  if (setup.srq || xrcd != 0) srq = *device.create_srq(pd, 64, 4, 0, xrcd, xrcd != 0 ? cq : 0);
  qp = connect();
}

AddressVector Bench::path() const {
  AddressVector to;
  to.dgid = peer.gids[setup.way].gid;
  to.sgid_index = device_entries[setup.way];
  return to;
}

std::uint32_t Bench::connect() {
  QueuePairOptions options{.type = setup.type, .pd = pd, .send_cq = cq, .recv_cq = cq};
  options.srq = xrcd == 0 ? srq : 0;
  options.xrcd = xrcd;
  options.max_inline = 4096;
  const std::uint32_t handle = *device.create_qp(options);
  to_rts(handle);
  return handle;
}

void Bench::to_rts(std::uint32_t handle) {
  const bool ud = setup.type == QpType::ud, reliable = !ud && setup.type != QpType::uc;
  const bool responds = reliable && setup.type != QpType::xrc_initiator;
  const bool requests = reliable && setup.type != QpType::xrc_target;
  QueuePairChange init{.state = QpState::init, .pkey_index = 0, .port = 1};
  QueuePairChange rtr{.state = QpState::rtr}, rts{.state = QpState::rts, .sq_psn = setup.sq_psn};
  if (ud) {
    init.qkey = qkey;
  } else {
    init.access = rights & ~(access::local_write | access::mw_bind);
    if (!reliable) init.access = access::remote_write;
    rtr.path_mtu = setup.mtu;
    rtr.path = path();
    rtr.dest_qpn = peer_qpn;
    rtr.rq_psn = setup.rq_psn;
  }
  if (responds) {
    rtr.max_dest_rd_atomic = setup.dest_reads;
    rtr.min_rnr_timer = setup.rnr_timer;
  }
  if (reliable) rts.timeout = setup.timeout;
  if (requests) {
    rts.max_rd_atomic = setup.reads;
    rts.retry_count = setup.retries;
    rts.rnr_retry = setup.rnr_retries;
  }
  for (const QueuePairChange* change : {&init, &rtr, &rts}) {
    const auto done = device.modify_qp(handle, *change);
    ASSERT_TRUE(done) << done.error().message;
  }
}

void Bench::receives(unsigned count, std::uint32_t bytes) {
  for (unsigned i = 0; i < count; ++i) {
    const ReceiveRequest request{next_id_++, {{buffer, bytes, region->key}}};
    ASSERT_TRUE(srq != 0 ? device.post_srq_recv(srq, request) : device.post_recv(qp, request));
  }
}

void Bench::post(SendRequest request) {
  request.id = next_id_++;
  const auto done = device.post_send(qp, std::move(request));
  ASSERT_TRUE(done) << done.error().message;
  settle();
}

void Bench::post(WorkOpcode opcode, std::uint32_t bytes, bool fence) {
  SendRequest request{.opcode = opcode, .fence = fence, .sges = {{buffer, bytes, region->key}}};
  request.remote_address = 0x1000;
  request.rkey = 0x77;
  post(std::move(request));
}

std::vector<OutgoingPacket> Bench::packets(Operation operation, std::uint32_t bytes, const Extra& extra) {
  const bool read = operation == Operation::rdma_read_request, atomic = machines::is_atomic(operation);
  const std::uint32_t psns = machines::psns_of_read(bytes, setup.mtu), count = read || atomic ? 1 : psns;
  std::vector<OutgoingPacket> all(count);
  for (std::uint32_t i = 0; i < count; ++i) {
    const Position position = position_of(i, count);
    const bool ends = i + 1 == count;
    const Opcode* op = find_opcode(device.qp(qp)->transport(), operation, position, ends && extra.immediate);
    OutgoingPacket& packet = all[i];
    packet.path.dgid = device.port().gids[device_entries[setup.way]].gid;
    packet.path.sgid_index = setup.way;
    packet.ecn = extra.ecn;
    packet.fields.opcode = op->value;
    packet.fields.psn = psn + std::int64_t{i};
    packet.fields.ack_request = extra.ack_request < 0 ? ends : extra.ack_request == static_cast<int>(i);
    packet.fields.solicited = ends && extra.solicited;
    packet.fields.va = extra.va != 0 ? extra.va : buffer;
    packet.fields.rkey = extra.rkey != 0 ? extra.rkey : region->key;
    packet.fields.length = bytes;
    packet.fields.swap_add = extra.swap_add;
    packet.fields.compare = extra.compare;
    packet.fields.immediate = 0x55;
    packet.fields.qkey = qkey;
    packet.fields.source_qpn = extra.source_qpn;
    if (xrcd != 0) packet.fields.xrc_srq = device.srq(srq)->number;
    if (read || atomic) continue;
    packet.payload.resize(std::min(bytes - i * setup.mtu, setup.mtu));
    for (std::size_t k = 0; k < packet.payload.size(); ++k)
      packet.payload[k] = static_cast<std::uint8_t>(1 + (i * 31 + k) % 255);
  }
  psn += read ? psns : count;
  return all;
}

void Bench::send(OutgoingPacket packet) {
  packet.fields.dest_qpn = device.qp(qp)->qpn;
  const auto frame = make_frame(packet, peer);
  ASSERT_TRUE(frame);
  replay::SimulatedHostOutput output;
  device.arrived(*frame, now_, output);
  take(output);
  settle();
}

void Bench::message(Operation operation, std::uint32_t bytes, const Extra& extra) {
  for (OutgoingPacket& packet : packets(operation, bytes, extra)) send(std::move(packet));
}

void Bench::acknowledge(std::uint32_t number, std::uint8_t syndrome) {
  OutgoingPacket packet;
  packet.path.dgid = device.port().gids[device_entries[setup.way]].gid;
  packet.path.sgid_index = setup.way;
  packet.fields.opcode = find_opcode(device.qp(qp)->transport(), Operation::acknowledge)->value;
  packet.fields.psn = Psn(number);
  packet.fields.syndrome = syndrome;
  packet.fields.msn = 1;
  send(std::move(packet));
}

void Bench::respond(std::uint32_t number, Operation operation, Position position, std::size_t bytes, std::uint8_t ecn) {
  OutgoingPacket packet;
  packet.path.dgid = device.port().gids[device_entries[setup.way]].gid;
  packet.path.sgid_index = setup.way;
  packet.ecn = ecn;
  packet.fields.opcode = find_opcode(device.qp(qp)->transport(), operation, position)->value;
  packet.fields.psn = Psn(number);
  packet.fields.syndrome = 31;
  packet.fields.original = 9;
  packet.payload.assign(bytes, 0xab);
  send(std::move(packet));
}

void Bench::take(replay::SimulatedHostOutput& output) {
  for (const auto& frame : output.frames) {
    trace_ += fmt::format("{} ", now_);
    note_bytes(frame.bytes);
  }
}

void Bench::settle() {
  constexpr std::int64_t busy = 1'000'000;  // the port sends its frames in less time
  const std::int64_t until = now_ + busy;
  while (device.wakes() <= until) {
    now_ = std::max(now_, device.wakes());
    replay::SimulatedHostOutput output;
    device.woken(now_, output);
    take(output);
  }
}

void Bench::wait(std::int64_t ns) {
  const std::int64_t until = now_ + ns;
  while (device.wakes() <= until) {
    now_ = std::max(now_, device.wakes());
    replay::SimulatedHostOutput output;
    device.woken(now_, output);
    take(output);
  }
  now_ = until;
}

void Bench::note_bytes(Bytes bytes) { note(fmt::format("{:02x}", fmt::join(bytes, ""))); }

void Bench::note_memory(std::uint64_t offset, std::size_t count) { note_bytes(device.memory(buffer + offset, count)); }

std::string Bench::finish() {
  const std::vector<Completion> completions = *device.poll_cq(cq, 1024);
  for (const Completion& c : completions)
    note(fmt::format("completion {} status {} opcode {} bytes {} immediate {} {} source {}", c.id,
                     static_cast<int>(c.status), static_cast<int>(c.opcode), c.bytes, c.has_immediate, c.immediate,
                     c.source_qpn));
  while (const auto event = device.get_async_event()) note(fmt::format("event {}", static_cast<int>(event->type)));
  while (*device.get_cq_event(channel)) note("notification");
  return std::move(trace_);
}

}  // namespace rdmawire::device::testing
