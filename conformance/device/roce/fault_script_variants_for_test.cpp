/// Part of the fault script: requests at the limits of what a rule permits.

#include "conformance/device/roce/fault_script_parts_for_test.hpp"

namespace rdmawire::device::testing::parts {

namespace {

constexpr std::size_t ip = 14;

void add_to_total_length(std::vector<std::uint8_t>& frame, unsigned bytes) {
  store_be(frame.data() + ip + 2, 2, load_be<2>(frame.data() + ip + 2) + bytes);
}

/// Send a frame with changed IP fields and a valid ICRC, and then the unchanged frame.
void received_frames(Script& s) {
  const auto qp = s.connect({.receives = 8});
  std::uint32_t psn = 1000;
  const auto with = [&](const std::function<std::vector<std::uint8_t>(std::vector<std::uint8_t>)>& changed) {
    const auto frame = s.frame(s.packet(qp, 0x04, psn++, 8));
    s.send_bytes(changed(frame));
    s.send_bytes(frame);
    s.run(20 * us);
  };
  with([](auto frame) {
    frame[ip + 6] = 0x60;  // DF and MF
    return recomputed(std::move(frame));
  });
  with([](auto frame) {
    frame[ip] = 0x65;  // IP version 6
    return recomputed(std::move(frame));
  });
  with([](auto frame) {
    add_to_total_length(frame, 4);
    frame = recomputed(std::move(frame));
    frame.resize(frame.size() + 4);
    return frame;
  });
  s.send(qp, 0x04, psn, 8, [](PacketFields& f) { f.dest_qpn = 0xffffff; });
  s.send(qp, 0x04, psn, 8, [](PacketFields& f) { f.pkey = 0x7fff; });
  s.run(20 * us);
  OutgoingPacket marked = s.packet(qp, 0x04, 1000, 8);  // a duplicate
  marked.ecn = 3;
  s.send(marked);
  s.run(100 * us);
  s.record_queue_pair(qp);
}

void received_requests(Script& s) {
  s.send(s.connect({}), 0x0a, 1000, 8, [](PacketFields& f) { f.va += (1U << 17) - 8; });  // the region's last bytes
  const auto invalidated = s.connect({});
  s.send(invalidated, 0x17, 1000, 8, [](PacketFields& f) { f.immediate = 0xdead0000; });
  s.run(20 * us);
  s.record_queue_pair(invalidated);
  s.send(s.connect({.state = QpState::init}), 0x0a, 1000, 8);
  const auto draining = s.connect({});
  s.record_result("sqd", s.device.modify_qp(draining, {.state = QpState::sqd}));
  s.send(draining, 0x04, 1000, 8);
  s.run(20 * us);
  const auto bound = s.connect({});
  const auto window = *s.device.alloc_mw(s.pd, 2);
  SendRequest bind = s.request(WorkOpcode::bind_mw, 0);
  bind.sges.clear();
  bind.window = window->handle;
  bind.region = s.mr->handle;
  bind.address = s.buffer;
  bind.bytes_bound = 4096;
  bind.rights = access::remote_read;
  bind.new_key = 0x42;
  s.post(bound, bind);
  s.run(20 * us);
  s.send(bound, 0x0c, 1000, 0, [&](PacketFields& f) { f.rkey = window->key, f.length = 8; });
  s.run(20 * us);
  const auto solicited = s.connect({.receives = 4});
  s.notify(true);
  s.send(solicited, 0x04, 1000, 8);
  s.run(20 * us);
}

void sent_requests(Script& s) {
  const auto answered = s.connect({.timeout = 12});
  s.post(answered, s.request(WorkOpcode::send, 8));
  s.run(10 * us);
  s.send(answered, 0x10, 2000, 8, [](PacketFields& f) { f.syndrome = 0x1f, f.msn = 1; });
  s.run(5 * ms);
  const auto empty = s.connect({.timeout = 0});
  s.post(empty, s.request(WorkOpcode::read, 0));
  s.post(empty, s.request(WorkOpcode::send, 8));
  s.run(10 * us);
  const auto datagrams = s.connect({.type = QpType::ud});
  AddressVector path;
  path.sgid_index = 3;
  path.dgid = s.port.gids[0].gid;
  const auto ah = *s.device.create_ah(s.pd, path);
  for (const std::uint32_t bytes : {8U, s.device.port().mtu}) {
    SendRequest sent = s.request(WorkOpcode::send, bytes);
    sent.ah = ah;
    sent.remote_qpn = 0x123;
    sent.remote_qkey = 0x5;
    s.post(datagrams, sent);
  }
  s.run(20 * us);
}

}  // namespace

void variants(Script& s) {
  received_frames(s);
  received_requests(s);
  sent_requests(s);
}

}  // namespace rdmawire::device::testing::parts
