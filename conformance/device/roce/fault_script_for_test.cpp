/// The fault script's parts for requester, datagrams and verbs, and the function that runs all parts.

#include "conformance/device/roce/fault_script_parts_for_test.hpp"
#include "conformance/device/roce/rpc_handler.hpp"

namespace rdmawire::device::testing {

namespace parts {

namespace {

void answer(Script& s, std::uint32_t qp, std::uint8_t opcode, std::uint32_t psn, std::uint8_t syndrome,
            std::size_t payload = 0) {
  s.send(qp, opcode, psn, payload, [&](PacketFields& f) {
    f.syndrome = syndrome;
    f.msn = psn - 1999;
    f.original = 0x1122334455667788;
  });
  s.run(10 * us);
}

}  // namespace

void requester_sends(Script& s) {
  const auto qp = s.connect({.timeout = 0});
  SendRequest immediate = s.request(WorkOpcode::send_imm, 600);
  immediate.immediate = 0xabcd;
  s.post(qp, immediate);
  s.post(qp, s.request(WorkOpcode::write, 300));
  s.run(20 * us);
  answer(s, qp, 0x11, 2000, 0x1f);
  answer(s, qp, 0x11, 2004, 0x60 - 0x41);
  for (int i = 0; i < 6; ++i) s.post(qp, s.request(WorkOpcode::read, 300));
  s.post(qp, s.request(WorkOpcode::send, 8));
  s.run(2000 * ms);
  SendRequest big = s.request(WorkOpcode::write, 65'536);
  const auto wide = s.connect({.timeout = 0});
  big.sges.assign(4, {s.buffer, 65'536, s.mr->key});
  s.post(wide, big);
  constexpr std::uint32_t piece = 8U << 20;  // 256 elements of this size are 2^31 bytes
  const auto large = *s.device.alloc(piece + 1);
  const auto large_region = *s.device.reg_mr(s.pd, large, piece + 1, access::local_write);
  const auto giant = s.connect({.sges = 256, .timeout = 0});
  SendRequest too_much = s.request(WorkOpcode::write, 0);
  too_much.sges.assign(256, {large, piece, large_region->key});
  too_much.sges.back().length = piece + 1;
  s.post(giant, too_much);
  s.run(20 * us);
  s.record_result("destroy", s.device.destroy_qp(giant));
  SendRequest unknown = s.request(WorkOpcode::unknown, 8);
  s.post(s.connect({}), unknown);
  s.run(20 * us);
  // Credits: the tester sends none.
  const auto poor = s.connect({.timeout = 0});
  s.post(poor, s.request(WorkOpcode::send, 8));
  s.run(10 * us);
  answer(s, poor, 0x11, 2000, 0x00);
  for (int i = 0; i < 3; ++i) s.post(poor, s.request(WorkOpcode::send, 8));
  s.run(20 * us);
  // Order: the device must send requests in the order of posting, and obey fences.
  const auto ordered = s.connect({.timeout = 0});
  s.post(ordered, s.request(WorkOpcode::send, 8));
  s.post(ordered, s.request(WorkOpcode::send, 16, 64));
  s.post(ordered, s.request(WorkOpcode::read, 8));
  SendRequest fenced = s.request(WorkOpcode::send, 24);
  fenced.fence = true;
  s.post(ordered, fenced);
  s.run(20 * us);
  const auto fast = *s.device.alloc_mr(s.pd, 4096);
  const auto local = s.connect({.timeout = 0});
  s.post(local, s.request(WorkOpcode::send, 8));
  SendRequest register_it = s.request(WorkOpcode::reg_mr, 0);
  register_it.sges.clear();
  register_it.region = fast->handle;
  register_it.address = s.buffer;
  register_it.bytes_bound = 64;
  register_it.fence = true;
  s.post(local, register_it);
  s.run(20 * us);
  s.record("valid", std::to_string(fast->valid));
}

void requester_answers(Script& s) {
  struct Answer {
    std::uint8_t opcode;
    std::uint32_t psn;
    std::uint8_t syndrome;
    std::size_t payload = 0;
  };
  struct Talk {
    std::vector<std::pair<WorkOpcode, std::uint32_t>> requests;
    std::vector<Answer> answers;
  };
  using enum WorkOpcode;
  const Talk talks[] = {
      {{{send, 8}, {send, 8}, {send, 8}}, {{0x11, 2000, 0x1f}, {0x11, 2050, 0x1f}, {0x11, 2001, 0x1f}}},
      {{{send, 8}, {send, 8}, {send, 8}},
       {{0x11, 2060, 0x60}, {0x11, 2000, 0x1f}, {0x11, 2000, 0x60}, {0x11, 2002, 0x1f}}},
      {{{read, 8}, {send, 8}}, {{0x11, 2000, 0x1f}, {0x10, 2000, 0x1f, 8}, {0x11, 2001, 0x1f}}},
      {{{read, 8}, {send, 8}}, {{0x11, 2001, 0x1f}, {0x10, 2000, 0x1f, 8}, {0x11, 2001, 0x1f}}},
      {{{read, 600}}, {{0x0e, 2000, 0x1f, 256}}},
      {{{read, 600}}, {{0x10, 2000, 0x1f, 8}}},
      {{{read, 8}}, {{0x10, 2000, 0x1f, 20}}},
      {{{read, 8}}, {{0x12, 2000, 0x1f}}},
      {{{send, 8}}, {{0x11, 2000, 0x40}}},
      {{{send, 8}}, {{0x11, 2000, 0x65}}},
      {{{send, 8}, {send, 8}, {send, 8}}, {{0x11, 2000, 0x62}}},
      {{{send, 600}, {send, 8}}, {{0x11, 2001, 0x60}, {0x11, 2001, 0x60}, {0x11, 2003, 0x1f}}},
      {{{write_imm, 300}, {send, 8}}, {{0x11, 2000, 0x60}, {0x11, 2002, 0x1f}}},
      {{{read, 1000}},
       {{0x0d, 2000, 0x1f, 256},
        {0x0e, 2002, 0x1f, 256},
        {0x0e, 2001, 0x1f, 256},
        {0x0e, 2002, 0x1f, 256},
        {0x0f, 2003, 0x1f, 232}}},
      {{{read, 1000}}, {{0x0d, 2000, 0x1f, 256}, {0x0e, 2001, 0x1f, 256}, {0x0e, 2001, 0x1f, 255}, {0x11, 2002, 0x62}}},
      {{{send, 8}, {send, 8}, {send, 8}}, {{0x11, 2001, 0x21}}},
  };
  for (const Talk& talk : talks) {
    const auto qp = s.connect({.timeout = 12});
    std::uint64_t offset = 4096;
    for (const auto& [opcode, bytes] : talk.requests) {
      SendRequest request = s.request(opcode, bytes, offset);
      request.signaled = opcode != read || talk.requests.size() > 1;
      request.immediate = 0x99;
      s.post(qp, request);
      offset += 2048;
    }
    s.run(10 * us);
    for (const Answer& one : talk.answers) {
      OutgoingPacket out = s.packet(qp, one.opcode, one.psn, one.payload);
      if (one.payload == 255) {  // duplicate with a different payload
        out.payload.assign(256, 0xee);
      }
      out.fields.syndrome = one.syndrome;
      out.fields.msn = one.psn - 1999;
      s.send(out);
      s.run(30 * us);
    }
    s.run(5 * ms);
    s.record_memory(4096, 1100);
    s.record_queue_pair(qp);
  }
}

void requester_patience(Script& s) {
  const auto silent = s.connect({});
  s.post(silent, s.request(WorkOpcode::send, 8));
  s.run(5 * ms);
  const auto progress = s.connect({.timeout = 4, .retries = 1});
  s.post(progress, s.request(WorkOpcode::send, 8));
  s.post(progress, s.request(WorkOpcode::send, 8));
  s.run(200 * us);
  answer(s, progress, 0x11, 2000, 0x1f);
  s.run(200 * us);
  answer(s, progress, 0x11, 2001, 0x1f);
  const auto refused = s.connect({.timeout = 0});
  s.post(refused, s.request(WorkOpcode::send, 8));
  s.run(10 * us);
  for (int i = 0; i < 4; ++i) {
    answer(s, refused, 0x11, 2000, 0x2c);
    s.run(1 * ms);
  }
  const auto endless = s.connect({.timeout = 0, .rnr_retry = 7});
  s.post(endless, s.request(WorkOpcode::send, 8));
  s.run(10 * us);
  for (int i = 0; i < 9; ++i) {
    answer(s, endless, 0x11, 2000, 0x21);
    s.run(100 * us);
  }
  s.record_queue_pair(endless);
  const auto quiet = s.connect({.timeout = 0});
  SendRequest unsignaled = s.request(WorkOpcode::send, 8);
  unsignaled.signaled = false;
  s.post(quiet, unsignaled);
  s.run(500 * ms);
  answer(s, quiet, 0x11, 2000, 0x61);
  // PSN wrap, and a retry across it.
  const auto wraps = s.connect({.state = QpState::rtr});
  s.record_result("rts", s.device.modify_qp(wraps, {.state = QpState::rts,
                                                    .sq_psn = 0xfffffe,
                                                    .max_rd_atomic = 1,
                                                    .timeout = 0,
                                                    .retry_count = 3,
                                                    .rnr_retry = 3}));
  s.post(wraps, s.request(WorkOpcode::send, 1000));
  s.run(10 * us);
  answer(s, wraps, 0x11, 0xffffff, 0x60);
}

void unreliable(Script& s) {
  const ConnectOptions uc{.type = QpType::uc};
  const auto qp = s.connect(uc);
  s.send(qp, 0x24, 1000, 8);
  s.send(qp, 0x20, 1001, 256);
  s.send(qp, 0x22, 1003, 8);  // 1002 is lost
  s.send(qp, 0x24, 1010, 8);
  s.send(qp, 0x21, 1011, 256);
  s.send(qp, 0x20, 1012, 256);
  s.send(qp, 0x24, 1013, 8);
  s.send(qp, 0x2b, 1014, 0, [](PacketFields& f) { f.rkey ^= 0x5500; });
  s.send(qp, 0x2a, 1015, 8, [](PacketFields& f) { f.rkey ^= 0x5500; });
  s.send(qp, 0x2c, 1016, 0);
  s.send(qp, 0x22, 1017, 8);
  s.run(20 * us);
  s.record_queue_pair(qp);
  const auto middle = s.connect(uc);
  s.send(middle, 0x22, 1000, 8);
  const auto empty = s.connect({.type = QpType::uc, .receives = 0});
  s.send(empty, 0x24, 1000, 8);
  const auto small = s.connect({.type = QpType::uc, .receive_bytes = 4});
  s.send(small, 0x24, 1000, 40);
  const auto srq = *s.device.create_srq(s.pd, 8, 1);
  for (std::uint64_t i = 0; i < 3; ++i)
    (void)s.device.post_srq_recv(srq, {.id = 910 + i, .sges = {{s.buffer + 4096, 512, s.mr->key}}});
  const auto shared = s.connect({.type = QpType::uc, .srq = srq});
  s.send(shared, 0x20, 1000, 256);
  s.send(shared, 0x24, 1001, 8);
  s.post(qp, s.request(WorkOpcode::write, 600));
  s.post(qp, s.request(WorkOpcode::send, 8));
  s.run(20 * us);
  s.post(qp, s.request(WorkOpcode::read, 8));  // local error of the sender
  s.run(20 * us);
  s.record_queue_pair(qp);
  s.send(qp, 0x24, 1018, 8);
  s.run(20 * us);
}

void datagrams(Script& s) {
  const ConnectOptions wanted{.type = QpType::ud, .receives = 12};
  const auto qp = s.connect(wanted), second = s.connect(wanted);
  s.send(qp, 0x64, 1, 8);
  s.send(qp, 0x65, 77, 8, [](PacketFields& f) { f.immediate = 5; });
  s.record_memory(32'768, 60);
  s.send(qp, 0x64, 2, 8, [](PacketFields& f) { f.qkey = 0x12; });
  auto first = s.frame(s.packet(qp, 0x64, 3, 8));
  first[42] = 0x60;
  s.send_bytes(recomputed(first));
  OutgoingPacket old = s.packet(qp, 0x64, 4, 8);
  old.path.sgid_index = 2;
  s.send(old);
  s.send(s.connect({.type = QpType::ud, .receives = 1, .receive_bytes = 5000}), 0x64, 5, 4200);
  OutgoingPacket group = s.packet(qp, 0x64, 6, 8);
  group.path.dgid = Gid::ipv4(0xe0000101);
  for (const auto member : {qp, second}) s.record_result("attach", s.device.attach_mcast(member, group.path.dgid));
  s.send(group);
  group.fields.dest_qpn = 0xffffff;
  s.send(group);
  s.run(20 * us);
  s.record_result("destroy", s.device.destroy_qp(second));
  const auto empty = s.connect({.type = QpType::ud, .receives = 0});
  s.send(empty, 0x64, 1, 8);
  AddressVector path;
  path.sgid_index = 3;
  path.dgid = s.port.gids[0].gid;
  const auto ah = *s.device.create_ah(s.pd, path);
  for (const std::uint32_t bytes : {8U, 5000U}) {
    SendRequest sent = s.request(WorkOpcode::send, bytes);
    sent.ah = ah;
    sent.remote_qpn = 0x123;
    sent.remote_qkey = 0x80000005;
    s.post(qp, sent);
  }
  s.run(20 * us);
  const auto small = s.connect({.type = QpType::ud, .receive_bytes = 44});
  s.send(small, 0x64, 1, 100);
  s.record_queue_pair(small);
  s.record_result("qkey", s.device.modify_qp(s.connect({.type = QpType::ud}), {.qkey = 0x80010000}));
  // QP 1.
  const auto gsi = s.device.create_qp({.type = QpType::ud, .pd = s.pd, .send_cq = s.cq, .recv_cq = s.cq, .gsi = true});
  s.record_result("gsi", gsi);
  if (!gsi) return;
  s.record_result("init",
                  s.device.modify_qp(*gsi, {.state = QpState::init, .pkey_index = 0, .port = 1, .qkey = 0x80010000}));
  s.record_result("rtr", s.device.modify_qp(*gsi, {.state = QpState::rtr}));
  for (std::uint64_t i = 0; i < 3; ++i)
    (void)s.device.post_recv(*gsi, {.id = 950 + i, .sges = {{s.buffer + 8192, 512, s.mr->key}}});
  const auto mad = [](PacketFields& f) { f.qkey = 0x80010000; };
  s.send(*gsi, 0x64, 1, 256, mad);
  s.send(*gsi, 0x64, 2, 256);
  s.send(*gsi, 0x64, 3, 256, [](PacketFields& f) { f.qkey = 0x80010000, f.pkey = 0x8005; });
  s.run(20 * us);
}

void xrc(Script& s) {
  const auto xrcd = *s.device.open_xrcd(), other = *s.device.open_xrcd();
  const auto srq = *s.device.create_srq(s.pd, 8, 1, 0, xrcd, s.cq);
  const auto foreign = *s.device.create_srq(s.pd, 8, 1, 0, other, s.cq);
  for (const auto queue : {srq, foreign})
    (void)s.device.post_srq_recv(queue, {.id = 920, .sges = {{s.buffer + 4096, 512, s.mr->key}}});
  const ConnectOptions wanted{.type = QpType::xrc_target, .xrcd = xrcd};
  const auto to = [&](std::uint32_t handle) {
    return [&s, handle](PacketFields& f) { f.xrc_srq = s.device.srq(handle)->number; };
  };
  const auto qp = s.connect(wanted);
  s.send(qp, 0xa4, 1000, 8, to(srq));
  s.send(qp, 0xac, 1001, 0, [&](PacketFields& f) { f.length = 700, f.xrc_srq = s.device.srq(srq)->number; });
  s.send(qp, 0xaa, 1004, 8, to(srq));
  s.send(qp, 0xb4, 1005, 0, to(srq));
  s.run(20 * us);
  const auto elsewhere = s.connect(wanted);
  s.send(elsewhere, 0xa4, 1000, 8, to(foreign));
  const auto empty = s.connect(wanted);
  s.send(empty, 0xa4, 1000, 8, to(srq));
  s.send(empty, 0x04, 1000, 8);
  const auto sender = s.connect({.type = QpType::xrc_initiator, .receives = 0, .timeout = 0});
  SendRequest sent = s.request(WorkOpcode::send, 8);
  sent.xrc_srq = 0x4321;
  s.post(sender, sent);
  s.run(20 * us);
}

void congestion(Script& s) {
  const auto qp = s.connect({.receives = 16}), other = s.connect({.receives = 16});
  const auto marked = [&](std::uint32_t to, std::uint32_t psn) {
    OutgoingPacket out = s.packet(to, 0x04, psn, 8);
    out.ecn = 3;
    return out;
  };
  s.send(marked(qp, 1000));
  s.send(marked(qp, 1001));
  s.send(marked(other, 1000));
  auto broken = s.frame(marked(qp, 1002));
  s.run(100 * us);
  broken.back() ^= 1;
  s.send_bytes(broken);
  s.run(100 * us);
  s.send(qp, 0x04, 1002, 8, [](PacketFields& f) { f.fecn = true; });
  s.send(qp, 0x04, 1005, 8);
  s.post(qp, s.request(WorkOpcode::write, 4096));
  s.run(100 * us);
  OutgoingPacket cnp = s.packet(other, 0x81, 0, 0);
  cnp.ecn = 3;
  s.send(cnp);
  s.post(other, s.request(WorkOpcode::write, 4096));
  s.run(2 * ms);
  s.post(other, s.request(WorkOpcode::write, 4096));
  s.run(2 * ms);
  const auto third = s.connect({});
  cnp = s.packet(third, 0x81, 0, 0);
  cnp.fields.cnp_reserved = 1;
  s.send(cnp);
  s.post(third, s.request(WorkOpcode::write, 4096));
  s.run(2 * ms);
}

void states(Script& s) {
  const auto qp = s.connect({.state = QpState::rtr});
  s.record_result("early", s.device.post_send(qp, s.request(WorkOpcode::send)));
  const auto fresh = *s.device.create_qp({.type = QpType::rc, .pd = s.pd, .send_cq = s.cq, .recv_cq = s.cq});
  s.record_result("reset", s.device.post_recv(fresh, {.id = 1}));
  s.record_result("jump", s.device.modify_qp(fresh, {.state = QpState::sqd}));
  s.record_result("init", s.device.modify_qp(fresh, {.state = QpState::init, .pkey_index = 0, .port = 1}));
  const auto drains = s.connect({.timeout = 0});
  s.record_result("sqd", s.device.modify_qp(drains, {.state = QpState::sqd, .sqd_notify = true}));
  s.post(drains, s.request(WorkOpcode::send));
  s.run(20 * us);
  const auto dies = s.connect({.timeout = 0});
  for (int i = 0; i < 3; ++i) s.post(dies, s.request(WorkOpcode::send));
  s.record_result("err", s.device.modify_qp(dies, {.state = QpState::err}));
  s.post(dies, s.request(WorkOpcode::send));
  s.run(20 * us);
  // Second connection after a reset.
  const auto lives = s.connect({.timeout = 0});
  s.post(lives, s.request(WorkOpcode::send));
  s.send(lives, 0x04, 1000, 8);
  s.run(20 * us);
  s.record_result("reset", s.device.modify_qp(lives, {.state = QpState::reset}));
  s.record_result("init", s.device.modify_qp(lives, {.state = QpState::init, .pkey_index = 0, .port = 1, .access = 0}));
  AddressVector path;
  path.sgid_index = 3;
  path.dgid = s.port.gids[0].gid;
  s.record_result("rtr", s.device.modify_qp(lives, {.state = QpState::rtr,
                                                    .path_mtu = 256,
                                                    .path = path,
                                                    .dest_qpn = 0x100,
                                                    .rq_psn = 50,
                                                    .max_dest_rd_atomic = 1,
                                                    .min_rnr_timer = 1}));
  s.record_result(
      "rts",
      s.device.modify_qp(
          lives,
          {.state = QpState::rts, .sq_psn = 60, .max_rd_atomic = 1, .timeout = 0, .retry_count = 1, .rnr_retry = 1}));
  s.post(lives, s.request(WorkOpcode::send));
  s.run(20 * us);
  const auto small = *s.device.create_cq(1);
  const auto crowded = s.connect({.recv_cq = small});
  for (std::uint32_t i = 0; i < 3; ++i) s.send(crowded, 0x04, 1000 + i, 8);
  s.run(20 * us);
  s.record_result("destroy", s.device.destroy_cq(small));
}

void invalidate_locally(Script& s) {
  const auto qp = s.connect({});
  const auto fast = *s.device.alloc_mr(s.pd, 4096);
  SendRequest request = s.request(WorkOpcode::reg_mr, 0);
  request.sges.clear();
  request.region = fast->handle;
  request.address = request.iova = s.buffer;
  request.bytes_bound = 64;
  request.rights = Script::all_rights;
  s.post(qp, request);
  s.run(20 * us);
  SendRequest invalidate = s.request(WorkOpcode::local_inv, 0);
  invalidate.sges.clear();
  invalidate.rkey = fast->key;
  s.post(qp, invalidate);
  s.run(20 * us);
  s.send(qp, 0x0a, 1000, 8, [&](PacketFields& f) { f.rkey = fast->key; });
  s.run(20 * us);
}

void counters(Script& s) {
  for (const CounterName& counter : counter_names)
    s.record(counter.name, std::to_string(s.device.counters().*counter.value));
  Counters high = s.device.counters();
  high.bad_pkeys = 0xffff;
  s.device.set_counters(high);
  const auto qp = s.connect({});
  s.send(qp, 0x04, 1000, 0, [](PacketFields& f) { f.pkey = 0x8001; });
  s.record("bad_pkeys", std::to_string(s.device.counters().bad_pkeys));
}

void tables(Script& s) {
  RpcHandler face(s.device, [](std::int64_t) { return false; });
  (void)face.run("hello", {{"protocol", 1}});
  const auto port = face.run("port", {{"device", 1}});
  s.record("port", port ? port->dump() : port.error().message);
}

}  // namespace parts

void play(Script& s) {
  parts::headers_sent(s);
  parts::headers_received(s);
  parts::responder_order(s);
  parts::responder_refusals(s);
  parts::responder_states(s);
  parts::invalidation(s);
  parts::windows(s);
  parts::requester_sends(s);
  parts::requester_answers(s);
  parts::requester_patience(s);
  parts::unreliable(s);
  parts::connections(s);
  parts::datagrams(s);
  parts::xrc(s);
  parts::congestion(s);
  parts::variants(s);
  parts::states(s);
  parts::invalidate_locally(s);
  parts::counters(s);
  parts::tables(s);
}

}  // namespace rdmawire::device::testing
