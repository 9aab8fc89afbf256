/// What the tester does. Each part has queue pairs of its own.

#include "conformance/device/fault_script_for_test.hpp"

#include "conformance/device/face.hpp"
#include "conformance/device/icrc.hpp"
#include "dissectors/protocol/encode.hpp"

namespace rdmawire::device::testing {

namespace {

using How = Script::How;

/// The frame with an ICRC, and an IPv4 checksum, that are right for what it holds now.
std::vector<std::uint8_t> mended(std::vector<std::uint8_t> frame) {
  constexpr std::size_t ip = 14;
  const std::size_t end = frame.size() - 4;
  store_be(frame.data() + ip + 10, 2, 0);
  store_be(frame.data() + ip + 10, 2, internet_checksum(Bytes(frame).subspan(ip, 20)));
  store_be(frame.data() + end, 4, icrc_with(Bytes(frame).subspan(ip, end - ip), true, {}));
  return frame;
}
constexpr std::int64_t us = 1000, ms = 1'000'000;

void headers_sent(Script& s) {
  for (const std::uint8_t gid : {3, 5, 2}) {  // IPv4, IPv6, RoCEv1
    const auto qp = s.connect({.gid = gid, .traffic_class = 0x48, .hop_limit = 33, .sl = 5});
    SendRequest odd = s.request(WorkOpcode::write_imm, 5);
    odd.immediate = 0x1234;
    s.post(qp, odd);
    s.post(qp, s.request(WorkOpcode::flush, 0));
    s.run(20 * us);
    s.send(qp, 0x04, 1000, 5);
  }
}

void headers_received(Script& s) {
  const auto qp = s.connect({.receives = 16});
  std::uint32_t psn = 1000;
  const auto with = [&](const std::function<void(std::vector<std::uint8_t>&)>& change) {
    auto frame = s.frame(s.packet(qp, 0x04, psn, 5));
    change(frame);
    s.send_octets(frame);
    s.send(qp, 0x04, psn++, 5);
    s.run(20 * us);
  };
  with([](auto& f) { f[46] = 0xc0; });               // FECN, BECN: masked
  with([](auto& f) { f[14 + 20 + 8 + 4] = 0x3f; });  // reserved, masked
  with([](auto& f) { f.back() ^= 1; });
  with([](auto& f) { f[12] = 0x86, f[13] = 0xdd; });
  with([](auto& f) { f[14] = 0x65, f = mended(f); });
  // Those that the ICRC covers, with a good one: made by faults of a sender.
  for (const Fault fault : {Fault::allows_fragments, Fault::sends_ip_options, Fault::short_udp_length,
                            Fault::short_total_length, Fault::flush_icrc_twice}) {
    Faults sender;
    sender.set(fault);
    OutgoingPacket out = s.packet(qp, fault == Fault::flush_icrc_twice ? 0x1c : 0x04, psn, 8);
    if (fault == Fault::flush_icrc_twice) out.payload.clear(), out.fields.placement = 1;
    s.send_octets(*make_frame(out, s.port, sender));
    out = s.packet(qp, 0x1c, psn++, 0);
    out.fields.placement = 1;
    s.send(out);
    s.run(20 * us);
  }
  // Pad, migration, versions, addresses, partitions.
  s.send(qp, 0x04, psn++, 3, [](PacketFields& f) { f.migrated = false; });
  s.send(qp, 0x04, psn, 3, [](PacketFields& f) { f.pkey = 0x8001; });
  s.send(qp, 0x04, psn, 3, [](PacketFields& f) { f.dest_qpn = 0; });
  s.send(qp, 0x04, psn, 3, [](PacketFields& f) { f.dest_qpn = 0xabcdef; });
  s.send(qp, 0x24, psn, 3);  // UC's SEND
  OutgoingPacket foreign = s.packet(qp, 0x04, psn, 3);
  foreign.path.sgid_index = 3;
  s.send(foreign);
  OutgoingPacket elsewhere = s.packet(qp, 0x04, psn, 3);
  elsewhere.path.dgid = Gid::ipv4(0x0a000055);
  s.port.learn(elsewhere.path.dgid, s.device.port().mac);
  s.send(elsewhere);
  OutgoingPacket old = s.packet(qp, 0x04, psn, 3);
  old.path.sgid_index = 2;
  s.send(old);  // RoCEv1
  s.run(20 * us);
  s.look(32'768, 16);
  // A runt: WRITE only without its RETH, and another version; as a sender's own ICRC has them.
  for (const unsigned octet : {43U, 42U}) {
    auto frame = s.frame(s.packet(qp, 0x04, psn, 0));
    if (octet == 43) frame[octet] |= 1;  // TVer
    if (octet == 42) frame[octet] = 0x0a;
    s.send_octets(mended(frame));
    s.run(20 * us);
  }
  s.send(qp, 0x18, psn, 0);  // reserved
  s.run(20 * us);
  s.look_at_queue_pair(qp);
}

void responder_order(Script& s) {
  const auto qp = s.connect({.receives = 16});
  s.send(qp, 0x04, 1000, 8, [](PacketFields& f) { f.ack_request = false; });
  s.send(qp, 0x04, 1001, 8);
  s.send(qp, 0x06, 1002, 256, [](PacketFields& f) { f.length = 260, f.ack_request = false; });
  s.send(qp, 0x08, 1003, 4);
  s.notify(true);
  s.send(qp, 0x05, 1004, 8, [](PacketFields& f) { f.solicited = true; });
  s.notify(false);
  s.send(qp, 0x0b, 1005, 8, [](PacketFields& f) { f.immediate = 7; });
  s.send(qp, 0x0c, 1006, 0, [](PacketFields& f) { f.length = 700; });  // 1006 to 1008
  s.send(qp, 0x04, 1009, 8);                                           // behind the READ
  s.run(20 * us);
  // Duplicates: of a WRITE with other octets, READs whole, in part and beyond.
  s.send(qp, 0x0a, 1010, 8);
  s.send(qp, 0x0a, 1010, 8, [](PacketFields& f) { f.va += 64; });
  s.look(0, 80);
  s.send(qp, 0x04, 1001, 8);
  s.send(qp, 0x0c, 1006, 0, [](PacketFields& f) { f.length = 700; });
  s.run(20 * us);
  s.send(qp, 0x0c, 1007, 0, [](PacketFields& f) { f.va += 256, f.length = 100; });
  s.run(20 * us);
  s.send(qp, 0x0c, 1007, 0, [](PacketFields& f) { f.va += 8192, f.length = 100; });
  s.run(20 * us);
  s.send(qp, 0x06, 1011, 256, [](PacketFields& f) { f.length = 300; });
  s.send(qp, 0x0c, 1006, 0, [](PacketFields& f) { f.length = 700; });
  s.send(qp, 0x08, 1012, 44);
  s.run(20 * us);
  // A later READ is being answered when an earlier one comes again.
  s.send(qp, 0x0c, 1013, 0, [](PacketFields& f) { f.length = 2560; });
  s.send(qp, 0x0c, 1006, 0, [](PacketFields& f) { f.length = 700; });
  s.run(20 * us);
  // Atomics, and an answer that is forgotten.
  const auto add = [](PacketFields& f) { f.swap_add = 3, f.va += 1024; };
  s.send(qp, 0x14, 1023, 0, add);
  s.send(qp, 0x14, 1023, 0, add);
  s.send(qp, 0x14, 1023, 0, [](PacketFields& f) { f.swap_add = 9, f.va += 1024; });
  s.send(qp, 0x13, 1024, 0, [](PacketFields& f) { f.swap_add = 9, f.compare = 1, f.va += 1024; });
  s.look(1024, 8);
  for (std::uint32_t i = 0; i < 5; ++i) s.send(qp, 0x0c, 1025 + i, 0, [](PacketFields& f) { f.length = 8; });
  s.send(qp, 0x0c, 1006, 0, [](PacketFields& f) { f.length = 700; });
  s.run(20 * us);
  // Gaps, twice.
  for (const std::uint32_t psn : {1031, 1032, 1030, 1031, 1032, 1034, 1033, 1034}) s.send(qp, 0x04, psn, 4);
  s.look_at_queue_pair(qp);
  s.look_at_queue_pair(qp);
  s.saw("expects", std::to_string(s.device.qp(qp)->responder.state.window.expected.value()));
  for (const std::int64_t back : {(1 << 22) + 5, (1 << 23) - 5}) s.send(qp, 0x0a, (Psn(1035) - back).value(), 4);
  s.run(20 * us);
  const auto wraps = s.connect({.psn = 0xffffff});
  s.send(wraps, 0x04, 0xffffff, 4);
  s.send(wraps, 0x04, 0, 4);
  // More READs than there are places for, all at once.
  const auto deep = s.connect({.depth = 2});
  for (std::uint32_t i = 0; i < 3; ++i) s.send(deep, 0x0c, 1000 + 4 * i, 0, [](PacketFields& f) { f.length = 1024; });
  s.run(20 * us);
}

void responder_refusals(Script& s) {
  struct Refused {
    std::uint8_t opcode;
    std::size_t payload;
    std::function<void(PacketFields&)> change;
    std::uint8_t before = 0xff;  ///< an opcode that comes first, with 256 octets
  };
  const auto wide = [](PacketFields& f) { f.length = 600; };
  const std::uint32_t foreign = (*s.device.reg_mr(s.other_pd, s.buffer, 4096, Script::all_rights))->key;
  const std::uint32_t closed = (*s.device.reg_mr(s.pd, s.buffer, 4096, access::local_write))->key;
  const Refused all[] = {
      {0x01, 256, {}},
      {0x07, 256, {}},
      {0x04, 8, {}, 0x00},
      {0x06, 256, wide, 0x06},
      {0x07, 256, {}, 0x00},
      {0x0c, 0, [](PacketFields& f) { f.length = 8; }, 0x06},
      {0x00, 100, {}},
      {0x04, 300, {}},
      {0x02, 0, {}, 0x00},
      {0x0a, 8, [](PacketFields& f) { f.length = 20; }},
      {0x0c, 0, [](PacketFields& f) { f.length = 0x80000001; }},
      {0x0a, 8, [](PacketFields& f) { f.rkey ^= 0x5500; }},
      {0x0a, 8, [](PacketFields& f) { f.va += 131'065; }},
      {0x0a, 8, [](PacketFields& f) { f.va = ~0ULL - 3; }},
      {0x0a, 8, [&](PacketFields& f) { f.rkey = foreign; }},
      {0x0c, 0, [&](PacketFields& f) { f.rkey = closed, f.length = 8; }},
      {0x14, 0, [](PacketFields& f) { f.va += 4; }},
      {0x1d, 4, {}},
      {0x1d, 8, [](PacketFields& f) { f.va += 4; }},
      {0x0b, 0, [](PacketFields& f) { f.rkey ^= 0x5500; }},
      {0x0c, 0, [](PacketFields& f) { f.rkey ^= 0x5500; }},
  };
  for (const Refused& refused : all) {
    const auto qp = s.connect({});
    std::uint32_t psn = 1000;
    if (refused.before != 0xff) s.send(qp, refused.before, psn++, 256, wide);
    s.send(qp, refused.opcode, psn, refused.payload, refused.change);
    s.run(20 * us);
    s.look_at_queue_pair(qp);
  }
  const auto small = s.connect({.receive_octets = 16});
  s.send(small, 0x04, 1000, 40);
  const auto rightless = s.connect({.rights = 0});
  s.send(rightless, 0x0a, 1000, 8);
  const auto shallow = s.connect({.depth = 0});
  s.send(shallow, 0x14, 1000, 0);
  const auto flushes = s.connect({.rights = access::remote_write});
  s.send(flushes, 0x1c, 1000, 0, [](PacketFields& f) { f.placement = 1, f.length = 8; });
  s.run(20 * us);
  // A shared receive queue.
  const auto srq = *s.device.create_srq(s.pd, 8, 1);
  (void)s.device.post_srq_recv(srq, {.id = 900, .sges = {{s.buffer, 64, s.mr->key}}});
  const auto shared = s.connect({.srq = srq});
  s.send(shared, 0x04, 1000, 8);
  s.send(shared, 0x0a, 1001, 8, [](PacketFields& f) { f.rkey ^= 0x5500; });
  s.run(20 * us);
}

void responder_states(Script& s) {
  const auto unready = s.connect({.receives = 0});
  s.send(unready, 0x04, 1000, 8);
  (void)s.device.post_recv(unready, {.id = 700, .sges = {{s.buffer, 64, s.mr->key}}});
  s.send(unready, 0x04, 1000, 8);
  s.run(20 * us);
  for (const QpState state : {QpState::init, QpState::rtr, QpState::rts}) {
    const auto qp = s.connect({.state = state});
    if (state == QpState::rts) s.tell("err", s.device.modify_qp(qp, {.state = QpState::err}));
    OutgoingPacket out = s.packet(qp, 0x04, 1000, 8);
    out.path.dgid = Gid::ipv4(0x0a000001);
    out.path.sgid_index = 0;
    s.send(out);
    s.run(20 * us);
  }
  // FLUSH and ATOMIC WRITE, and again.
  const auto qp = s.connect({});
  s.send(qp, 0x1c, 1000, 0, [](PacketFields& f) { f.placement = 1, f.length = 8; });
  s.send(qp, 0x1c, 1000, 0, [](PacketFields& f) { f.placement = 1, f.length = 8; });
  s.send(qp, 0x1d, 1001, 8, [](PacketFields& f) { f.va += 2048; });
  s.send(qp, 0x1d, 1001, 8, [](PacketFields& f) { f.va += 2056; });
  s.look(2048, 16);
  s.send(qp, 0x1c, 1002, 0, [](PacketFields& f) { f.placement = 1, f.selectivity = 1, f.va = 5, f.length = 1U << 20; });
  s.run(20 * us);
  // A region that goes away while it is read.
  const auto gone = *s.device.reg_mr(s.pd, s.buffer, 16'384, Script::all_rights);
  const auto reader = s.connect({});
  s.send(reader, 0x0c, 1000, 0, [&](PacketFields& f) { f.rkey = gone->key, f.length = 8192; });
  s.run(100);
  s.tell("dereg", s.device.dereg_mr(gone->handle));
  s.run(20 * us);
}

void invalidation(Script& s) {
  const auto qp = s.connect({});
  const auto fast = *s.device.alloc_mr(s.pd, 4096);
  SendRequest fast_register = s.request(WorkOpcode::reg_mr, 0);
  fast_register.sges.clear();
  fast_register.region = fast->handle;
  fast_register.new_key = fast->key + 1;
  fast_register.address = fast_register.iova = s.buffer;
  fast_register.octets_bound = 4096;
  fast_register.rights = Script::all_rights;
  s.post(qp, fast_register);
  s.run(20 * us);
  const std::uint32_t key = fast->key;
  s.send(qp, 0x0a, 1000, 8, [&](PacketFields& f) { f.rkey = key; });
  s.send(qp, 0x17, 1001, 8, [&](PacketFields& f) { f.immediate = key; });
  s.send(qp, 0x0a, 1002, 8, [&](PacketFields& f) { f.rkey = key; });
  s.run(20 * us);
  const auto again = s.connect({});
  s.send(again, 0x17, 1000, 8, [&](PacketFields& f) { f.immediate = s.mr->key; });
  s.run(20 * us);
}

void windows(Script& s) {
  const auto qp = s.connect({}), other = s.connect({});
  const auto region = *s.device.reg_mr(s.pd, s.buffer, 8192, Script::all_rights);
  const auto type_2 = *s.device.alloc_mw(s.pd, 2), type_1 = *s.device.alloc_mw(s.pd, 1);
  const auto bind = [&](const Window* window, std::uint64_t octets, std::uint32_t rights) {
    SendRequest asked = s.request(WorkOpcode::bind_mw, 0);
    asked.sges.clear();
    asked.window = window->handle;
    asked.region = region->handle;
    asked.address = s.buffer;
    asked.octets_bound = octets;
    asked.rights = rights;
    asked.new_key = 0x42;
    return asked;
  };
  s.post(qp, bind(type_2, 4096, access::remote_read));
  s.run(20 * us);
  s.tell("dereg", s.device.dereg_mr(region->handle));
  s.send(other, 0x0c, 1000, 0, [&](PacketFields& f) { f.rkey = type_2->key, f.length = 8; });
  s.send(qp, 0x0a, 1000, 8, [&](PacketFields& f) { f.rkey = type_2->key; });
  s.run(20 * us);
  s.tell("destroy", s.device.destroy_qp(qp));
  const auto binder = s.connect({}), unbinder = s.connect({});
  s.post(binder, bind(type_1, 9000, access::remote_read));
  s.post(unbinder, bind(type_1, 4096, access::remote_read));
  s.run(20 * us);
  SendRequest invalidate = s.request(WorkOpcode::local_inv, 0);
  invalidate.sges.clear();
  invalidate.rkey = type_1->key;
  s.post(unbinder, invalidate);
  s.run(20 * us);
}

void answer(Script& s, std::uint32_t qp, std::uint8_t opcode, std::uint32_t psn, std::uint8_t syndrome,
            std::size_t payload = 0) {
  s.send(qp, opcode, psn, payload, [&](PacketFields& f) {
    f.syndrome = syndrome;
    f.msn = psn - 1999;
    f.original = 0x1122334455667788;
  });
  s.run(10 * us);
}

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
  constexpr std::uint32_t piece = 8U << 20;  // 256 times the same, and an octet
  const auto large = *s.device.alloc(piece + 1);
  const auto large_region = *s.device.reg_mr(s.pd, large, piece + 1, access::local_write);
  const auto giant = s.connect({.sges = 256, .timeout = 0});
  SendRequest too_much = s.request(WorkOpcode::write, 0);
  too_much.sges.assign(256, {large, piece, large_region->key});
  too_much.sges.back().length = piece + 1;
  s.post(giant, too_much);
  s.run(20 * us);
  s.tell("destroy", s.device.destroy_qp(giant));
  SendRequest unknown = s.request(WorkOpcode::unknown, 8);
  s.post(s.connect({}), unknown);
  s.run(20 * us);
  // Credits: none is told.
  const auto poor = s.connect({.timeout = 0});
  s.post(poor, s.request(WorkOpcode::send, 8));
  s.run(10 * us);
  answer(s, poor, 0x11, 2000, 0x00);
  for (int i = 0; i < 3; ++i) s.post(poor, s.request(WorkOpcode::send, 8));
  s.run(20 * us);
  // Order: the newest does not overtake, fences hold.
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
  register_it.octets_bound = 64;
  register_it.fence = true;
  s.post(local, register_it);
  s.run(20 * us);
  s.saw("valid", std::to_string(fast->valid));
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
    for (const auto& [opcode, octets] : talk.requests) {
      SendRequest asked = s.request(opcode, octets, offset);
      asked.signaled = opcode != read || talk.requests.size() > 1;
      asked.immediate = 0x99;
      s.post(qp, asked);
      offset += 2048;
    }
    s.run(10 * us);
    for (const Answer& one : talk.answers) {
      OutgoingPacket out = s.packet(qp, one.opcode, one.psn, one.payload);
      if (one.payload == 255) {  // a duplicate with other octets
        out.payload.assign(256, 0xee);
      }
      out.fields.syndrome = one.syndrome;
      out.fields.msn = one.psn - 1999;
      s.send(out);
      s.run(30 * us);
    }
    s.run(5 * ms);
    s.look(4096, 1100);
    s.look_at_queue_pair(qp);
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
  s.look_at_queue_pair(endless);
  const auto quiet = s.connect({.timeout = 0});
  SendRequest unsignaled = s.request(WorkOpcode::send, 8);
  unsignaled.signaled = false;
  s.post(quiet, unsignaled);
  s.run(500 * ms);
  answer(s, quiet, 0x11, 2000, 0x61);
  // PSNs wrap, and it goes back across.
  const auto wraps = s.connect({.state = QpState::rtr});
  s.tell("rts", s.device.modify_qp(wraps, {.state = QpState::rts,
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
  const How uc{.type = QpType::uc};
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
  s.look_at_queue_pair(qp);
  const auto middle = s.connect(uc);
  s.send(middle, 0x22, 1000, 8);
  const auto empty = s.connect({.type = QpType::uc, .receives = 0});
  s.send(empty, 0x24, 1000, 8);
  const auto small = s.connect({.type = QpType::uc, .receive_octets = 4});
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
  s.post(qp, s.request(WorkOpcode::read, 8));  // an error of the sender's own
  s.run(20 * us);
  s.look_at_queue_pair(qp);
  s.send(qp, 0x24, 1018, 8);
  s.run(20 * us);
}

void datagrams(Script& s) {
  const How how{.type = QpType::ud, .receives = 12};
  const auto qp = s.connect(how), second = s.connect(how);
  s.send(qp, 0x64, 1, 8);
  s.send(qp, 0x65, 77, 8, [](PacketFields& f) { f.immediate = 5; });
  s.look(32'768, 60);
  s.send(qp, 0x64, 2, 8, [](PacketFields& f) { f.qkey = 0x12; });
  auto first = s.frame(s.packet(qp, 0x64, 3, 8));
  first[42] = 0x60;
  s.send_octets(mended(first));
  OutgoingPacket old = s.packet(qp, 0x64, 4, 8);
  old.path.sgid_index = 2;
  s.send(old);
  s.send(s.connect({.type = QpType::ud, .receives = 1, .receive_octets = 5000}), 0x64, 5, 4200);
  OutgoingPacket group = s.packet(qp, 0x64, 6, 8);
  group.path.dgid = Gid::ipv4(0xe0000101);
  for (const auto member : {qp, second}) s.tell("attach", s.device.attach_mcast(member, group.path.dgid));
  s.send(group);
  group.fields.dest_qpn = 0xffffff;
  s.send(group);
  s.run(20 * us);
  s.tell("destroy", s.device.destroy_qp(second));
  const auto empty = s.connect({.type = QpType::ud, .receives = 0});
  s.send(empty, 0x64, 1, 8);
  AddressVector path;
  path.sgid_index = 3;
  path.dgid = s.port.gids[0].gid;
  const auto ah = *s.device.create_ah(s.pd, path);
  for (const std::uint32_t octets : {8U, 5000U}) {
    SendRequest sent = s.request(WorkOpcode::send, octets);
    sent.ah = ah;
    sent.remote_qpn = 0x123;
    sent.remote_qkey = 0x80000005;
    s.post(qp, sent);
  }
  s.run(20 * us);
  const auto small = s.connect({.type = QpType::ud, .receive_octets = 44});
  s.send(small, 0x64, 1, 100);
  s.look_at_queue_pair(small);
  s.tell("qkey", s.device.modify_qp(s.connect({.type = QpType::ud}), {.qkey = 0x80010000}));
  // QP1.
  const auto gsi = s.device.create_qp({.type = QpType::ud, .pd = s.pd, .send_cq = s.cq, .recv_cq = s.cq, .gsi = true});
  s.tell("gsi", gsi);
  if (!gsi) return;
  s.tell("init", s.device.modify_qp(*gsi, {.state = QpState::init, .pkey_index = 0, .port = 1, .qkey = 0x80010000}));
  s.tell("rtr", s.device.modify_qp(*gsi, {.state = QpState::rtr}));
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
  const How how{.type = QpType::xrc_target, .xrcd = xrcd};
  const auto to = [&](std::uint32_t handle) {
    return [&s, handle](PacketFields& f) { f.xrc_srq = s.device.srq(handle)->number; };
  };
  const auto qp = s.connect(how);
  s.send(qp, 0xa4, 1000, 8, to(srq));
  s.send(qp, 0xac, 1001, 0, [](PacketFields& f) { f.length = 700; });
  s.send(qp, 0xaa, 1004, 8);
  s.send(qp, 0xb4, 1005, 0);
  s.run(20 * us);
  const auto elsewhere = s.connect(how);
  s.send(elsewhere, 0xa4, 1000, 8, to(foreign));
  const auto empty = s.connect(how);
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
  s.send_octets(broken);
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
  s.tell("early", s.device.post_send(qp, s.request(WorkOpcode::send)));
  const auto fresh = *s.device.create_qp({.type = QpType::rc, .pd = s.pd, .send_cq = s.cq, .recv_cq = s.cq});
  s.tell("reset", s.device.post_recv(fresh, {.id = 1}));
  s.tell("jump", s.device.modify_qp(fresh, {.state = QpState::sqd}));
  s.tell("init", s.device.modify_qp(fresh, {.state = QpState::init, .pkey_index = 0, .port = 1}));
  const auto drains = s.connect({.timeout = 0});
  s.tell("sqd", s.device.modify_qp(drains, {.state = QpState::sqd, .sqd_notify = true}));
  s.post(drains, s.request(WorkOpcode::send));
  s.run(20 * us);
  const auto dies = s.connect({.timeout = 0});
  for (int i = 0; i < 3; ++i) s.post(dies, s.request(WorkOpcode::send));
  s.tell("err", s.device.modify_qp(dies, {.state = QpState::err}));
  s.post(dies, s.request(WorkOpcode::send));
  s.run(20 * us);
  // Another life.
  const auto lives = s.connect({.timeout = 0});
  s.post(lives, s.request(WorkOpcode::send));
  s.send(lives, 0x04, 1000, 8);
  s.run(20 * us);
  s.tell("reset", s.device.modify_qp(lives, {.state = QpState::reset}));
  s.tell("init", s.device.modify_qp(lives, {.state = QpState::init, .pkey_index = 0, .port = 1, .access = 0}));
  AddressVector path;
  path.sgid_index = 3;
  path.dgid = s.port.gids[0].gid;
  s.tell("rtr", s.device.modify_qp(lives, {.state = QpState::rtr,
                                           .path_mtu = 256,
                                           .path = path,
                                           .dest_qpn = 0x100,
                                           .rq_psn = 50,
                                           .max_dest_rd_atomic = 1,
                                           .min_rnr_timer = 1}));
  s.tell(
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
  s.tell("destroy", s.device.destroy_cq(small));
}

void invalidate_locally(Script& s) {
  const auto qp = s.connect({});
  const auto fast = *s.device.alloc_mr(s.pd, 4096);
  SendRequest asked = s.request(WorkOpcode::reg_mr, 0);
  asked.sges.clear();
  asked.region = fast->handle;
  asked.address = asked.iova = s.buffer;
  asked.octets_bound = 64;
  asked.rights = Script::all_rights;
  s.post(qp, asked);
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
    s.saw(counter.name, std::to_string(s.device.counters().*counter.value));
  Counters high = s.device.counters();
  high.bad_pkeys = 0xffff;
  s.device.set_counters(high);
  const auto qp = s.connect({});
  s.send(qp, 0x04, 1000, 0, [](PacketFields& f) { f.pkey = 0x8001; });
  s.saw("bad_pkeys", std::to_string(s.device.counters().bad_pkeys));
}

void tables(Script& s) {
  Face face(s.device, [](std::int64_t) { return false; });
  (void)face.run("hello", {{"protocol", 1}});
  const auto port = face.run("port", {{"device", 1}});
  s.saw("port", port ? port->dump() : port.error().message);
}

}  // namespace

void play(Script& s) {
  headers_sent(s);
  headers_received(s);
  responder_order(s);
  responder_refusals(s);
  responder_states(s);
  invalidation(s);
  windows(s);
  requester_sends(s);
  requester_answers(s);
  requester_patience(s);
  unreliable(s);
  datagrams(s);
  xrc(s);
  congestion(s);
  states(s);
  invalidate_locally(s);
  counters(s);
  tables(s);
}

}  // namespace rdmawire::device::testing
