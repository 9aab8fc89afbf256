/// Parts of the fault script that test the responder.

#include "conformance/device/roce/fault_script_parts_for_test.hpp"

namespace rdmawire::device::testing::parts {

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
    s.send_bytes(frame);
    s.send(qp, 0x04, psn++, 5);
    s.run(20 * us);
  };
  with([](auto& f) { f[46] = 0xc0; });               // FECN and BECN, which the ICRC does not cover
  with([](auto& f) { f[14 + 20 + 8 + 4] = 0x3f; });  // reserved bits, which the ICRC does not cover
  with([](auto& f) { f.back() ^= 1; });
  with([](auto& f) { f[12] = 0x86, f[13] = 0xdd; });
  with([](auto& f) { f[14] = 0x65, f = recomputed(f); });
  // Invalid fields with a valid ICRC, from a sender with faults.
  for (const Fault fault : {Fault::allows_fragments, Fault::sends_ip_options, Fault::short_udp_length,
                            Fault::short_total_length, Fault::flush_icrc_twice}) {
    Faults sender;
    sender.set(fault);
    OutgoingPacket out = s.packet(qp, fault == Fault::flush_icrc_twice ? 0x1c : 0x04, psn, 8);
    if (fault == Fault::flush_icrc_twice) out.payload.clear(), out.fields.placement = 1;
    s.send_bytes(*make_frame(out, s.port, decisions_with(sender).encoding));
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
  s.send(qp, 0x24, psn, 3);  // UC SEND
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
  s.record_memory(32'768, 16);
  // A WRITE only without RETH and another transport version, with a valid ICRC.
  for (const unsigned byte : {43U, 42U}) {
    auto frame = s.frame(s.packet(qp, 0x04, psn, 0));
    if (byte == 43) frame[byte] |= 1;  // TVer
    if (byte == 42) frame[byte] = 0x0a;
    s.send_bytes(recomputed(frame));
    s.run(20 * us);
  }
  s.send(qp, 0x18, psn, 0);  // reserved
  s.run(20 * us);
  s.record_queue_pair(qp);
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
  s.send(qp, 0x0c, 1006, 0, [](PacketFields& f) { f.length = 700; });  // PSNs 1006 to 1008
  s.send(qp, 0x04, 1009, 8);                                           // after the READ
  s.run(20 * us);
  // Duplicates: a WRITE with a different payload, and READs of the complete range, a part, and beyond.
  s.send(qp, 0x0a, 1010, 8);
  s.send(qp, 0x0a, 1010, 8, [](PacketFields& f) { f.va += 64; });
  s.record_memory(0, 80);
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
  // A duplicate of an earlier READ during the response to a later READ.
  s.send(qp, 0x0c, 1013, 0, [](PacketFields& f) { f.length = 2560; });
  s.send(qp, 0x0c, 1006, 0, [](PacketFields& f) { f.length = 700; });
  s.run(20 * us);
  // Atomics, and a duplicate whose result is no longer stored.
  const auto add = [](PacketFields& f) { f.swap_add = 3, f.va += 1024; };
  s.send(qp, 0x14, 1023, 0, add);
  s.send(qp, 0x14, 1023, 0, add);
  s.send(qp, 0x14, 1023, 0, [](PacketFields& f) { f.swap_add = 9, f.va += 1024; });
  s.send(qp, 0x13, 1024, 0, [](PacketFields& f) { f.swap_add = 9, f.compare = 1, f.va += 1024; });
  s.record_memory(1024, 8);
  for (std::uint32_t i = 0; i < 5; ++i) s.send(qp, 0x0c, 1025 + i, 0, [](PacketFields& f) { f.length = 8; });
  s.send(qp, 0x0c, 1006, 0, [](PacketFields& f) { f.length = 700; });
  s.run(20 * us);
  // Two gaps.
  for (const std::uint32_t psn : {1031, 1032, 1030, 1031, 1032, 1034, 1033, 1034}) s.send(qp, 0x04, psn, 4);
  s.record_queue_pair(qp);
  s.record_queue_pair(qp);
  s.record("expects", std::to_string(s.device.qp(qp)->responder.state.window.expected.value()));
  for (const std::int64_t back : {(1 << 22) + 5, (1 << 23) - 5}) s.send(qp, 0x0a, (Psn(1035) - back).value(), 4);
  s.run(20 * us);
  const auto wraps = s.connect({.psn = 0xffffff});
  s.send(wraps, 0x04, 0xffffff, 4);
  s.send(wraps, 0x04, 0, 4);
  // More READs at once than the responder accepts.
  const auto deep = s.connect({.depth = 2});
  for (std::uint32_t i = 0; i < 3; ++i) s.send(deep, 0x0c, 1000 + 4 * i, 0, [](PacketFields& f) { f.length = 1024; });
  s.run(20 * us);
}

void responder_refusals(Script& s) {
  struct Refused {
    std::uint8_t opcode;
    std::size_t payload;
    std::function<void(PacketFields&)> change;
    std::uint8_t before = 0xff;  ///< opcode of a preceding packet with 256 bytes
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
    s.record_queue_pair(qp);
  }
  const auto small = s.connect({.receive_bytes = 16});
  s.send(small, 0x04, 1000, 40);
  const auto rightless = s.connect({.rights = 0});
  s.send(rightless, 0x0a, 1000, 8);
  const auto shallow = s.connect({.depth = 0});
  s.send(shallow, 0x14, 1000, 0);
  const auto flushes = s.connect({.rights = access::remote_write});
  s.send(flushes, 0x1c, 1000, 0, [](PacketFields& f) { f.placement = 1, f.length = 8; });
  s.run(20 * us);
  // A shared receive queue (SRQ).
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
    if (state == QpState::rts) s.record_result("err", s.device.modify_qp(qp, {.state = QpState::err}));
    OutgoingPacket out = s.packet(qp, 0x04, 1000, 8);
    out.path.dgid = Gid::ipv4(0x0a000001);
    out.path.sgid_index = 0;
    s.send(out);
    s.run(20 * us);
  }
  // FLUSH, ATOMIC WRITE and their duplicates.
  const auto qp = s.connect({});
  s.send(qp, 0x1c, 1000, 0, [](PacketFields& f) { f.placement = 1, f.length = 8; });
  s.send(qp, 0x1c, 1000, 0, [](PacketFields& f) { f.placement = 1, f.length = 8; });
  s.send(qp, 0x1d, 1001, 8, [](PacketFields& f) { f.va += 2048; });
  s.send(qp, 0x1d, 1001, 8, [](PacketFields& f) { f.va += 2056; });
  s.record_memory(2048, 16);
  s.send(qp, 0x1c, 1002, 0, [](PacketFields& f) { f.placement = 1, f.selectivity = 1, f.va = 5, f.length = 1U << 20; });
  s.run(20 * us);
  // A region is deregistered during a READ.
  const auto gone = *s.device.reg_mr(s.pd, s.buffer, 16'384, Script::all_rights);
  const auto reader = s.connect({});
  s.send(reader, 0x0c, 1000, 0, [&](PacketFields& f) { f.rkey = gone->key, f.length = 8192; });
  s.run(100);
  s.record_result("dereg", s.device.dereg_mr(gone->handle));
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
  fast_register.bytes_bound = 4096;
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
  const auto bind = [&](const Window* window, std::uint64_t bytes, std::uint32_t rights) {
    SendRequest request = s.request(WorkOpcode::bind_mw, 0);
    request.sges.clear();
    request.window = window->handle;
    request.region = region->handle;
    request.address = s.buffer;
    request.bytes_bound = bytes;
    request.rights = rights;
    request.new_key = 0x42;
    return request;
  };
  s.post(qp, bind(type_2, 4096, access::remote_read));
  s.run(20 * us);
  s.record_result("dereg", s.device.dereg_mr(region->handle));
  s.send(other, 0x0c, 1000, 0, [&](PacketFields& f) { f.rkey = type_2->key, f.length = 8; });
  s.send(qp, 0x0a, 1000, 8, [&](PacketFields& f) { f.rkey = type_2->key; });
  s.run(20 * us);
  s.record_result("destroy", s.device.destroy_qp(qp));
  const auto binder = s.connect({}), unbinder = s.connect({});
  s.post(binder, bind(type_1, 9000, access::remote_read));
  s.post(unbinder, bind(type_1, 4096, access::remote_read));
  s.run(20 * us);
  const auto wrapper = s.connect({});
  s.post(wrapper, bind(*s.device.alloc_mw(s.pd, 2), std::uint64_t{0} - s.buffer / 2, access::remote_read));
  s.run(20 * us);
  SendRequest invalidate = s.request(WorkOpcode::local_inv, 0);
  invalidate.sges.clear();
  invalidate.rkey = type_1->key;
  s.post(unbinder, invalidate);
  s.run(20 * us);
}

}  // namespace rdmawire::device::testing::parts
