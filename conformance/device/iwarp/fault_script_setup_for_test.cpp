#include "conformance/device/iwarp/script_parts_for_test.hpp"

namespace rdmawire::endpoint::testing {

void play_setup(std::optional<Fault> fault, Trace& trace) {
  const auto scenario = [&](std::string_view name, const machines::MpaSettings& mpa, const auto& play) {
    ManualPeer peer(name, fault, trace, mpa);
    play(peer);
  };
  const auto plain = script_settings(1), enhanced = script_settings(2);
  const auto answers = [&](std::string_view name, const machines::MpaSettings& mpa, const ByteVector& request) {
    scenario(name, mpa, [&](ManualPeer& peer) {
      peer.accept_request(request);
      for (std::uint64_t id = 1; id <= 3; ++id) peer.dut.receive(id, 2000 * id, 64);
      peer.send_ulpdu(untagged(3, 0, 1, 0, some(7)));
      (void)peer.dut.end->post_send({.id = 1, .opcode = device::WorkOpcode::send, .sges = {peer.dut.piece(0, 30)}});
      peer.record();
    });
  };

  // Responders
  answers("revision 1", plain, request_frame(0x40, 1));
  answers("revision 1 to a responder of revision 2", enhanced, request_frame(0x40, 1));
  answers("no CRC", plain, request_frame(0x00, 1));
  answers("reserved bits", plain, request_frame(0x4a, 1));
  answers("R in a request", plain, request_frame(0x60, 1));
  answers("revision 3", enhanced, request_frame(0x40, 3));
  answers("revision 0", plain, request_frame(0xc0, 0));
  answers("unknown key", plain, setup_frame("MPA ID Xxx Frame", 0x40, 1));
  answers("key of a reply", plain, reply_frame(0x40, 1));
  answers("300 bytes", plain, request_frame(0x40, 1, some(300)));
  answers("512 bytes", plain, request_frame(0x40, 1, some(512)));
  answers("513 bytes", plain, request_frame(0x40, 1, some(513)));
  answers("less private data than announced", plain, request_frame(0x40, 1, some(3), 10));
  answers("more private data than announced", plain, request_frame(0x40, 1, some(10), 3));
  answers("markers", plain, request_frame(0xc0, 1));
  answers("enhanced", enhanced, request_frame(0x50, 2, {0x00, 0x01, 0x00, 0x04}));
  answers("enhanced, peer to peer", enhanced, request_frame(0x50, 2, {0xc0, 0x01, 0xc0, 0x01}));
  answers("enhanced, all ones", enhanced, request_frame(0x50, 2, {0x3f, 0xff, 0x3f, 0xff}));
  answers("enhanced, short", enhanced, request_frame(0x50, 2, some(2, 0)));
  answers("enhanced, to a responder of revision 1", plain, request_frame(0x50, 2, {0x00, 0x01, 0x00, 0x04}));
  auto without_crc = plain, with_markers = plain;
  without_crc.crc = false;
  with_markers.markers = true;
  answers("CRC requested by the peer", without_crc, request_frame(0x40, 1));
  answers("markers requested by the device", with_markers, request_frame(0x40, 1));
  scenario("no CRCs, any value is accepted", without_crc, [](ManualPeer& peer) {
    peer.accept_request(request_frame(0x00, 1));
    peer.dut.receive(1, 1000, 64);
    peer.send_bytes(
        peer.changed_fpdu(untagged(3, 0, 1, 0, some(4)), true, [](ByteVector& bytes) { bytes.back() = 0x11; }));
  });
  scenario("in pieces", plain, [](ManualPeer& peer) {
    (void)peer.dut.end->await(0);
    for (const std::uint8_t byte : request_frame(0x40, 1, some(2))) peer.send_bytes({byte});
    (void)peer.dut.end->accept({});
    peer.record();
  });
  scenario("partial frame without the rest", plain, [](ManualPeer& peer) {
    (void)peer.dut.end->await(0);
    peer.send_bytes(ByteVector(16, 'M'));
    peer.wait(10'000'000'000);
  });
  scenario("partial valid frame without the rest", plain, [](ManualPeer& peer) {
    (void)peer.dut.end->await(0);
    ByteVector half = request_frame(0x40, 1);
    half.resize(12);
    peer.send_bytes(half);
    peer.wait(10'000'000'000);
  });
  scenario("silence", plain, [](ManualPeer& peer) {
    (void)peer.dut.end->await(0);
    peer.wait(10'000'000'000);
  });
  scenario("rejects", enhanced, [](ManualPeer& peer) {
    peer.accept_request(request_frame(0x50, 2, {0, 0, 0, 0}), false);
  });
  scenario("sends before the first FPDU", plain, [](ManualPeer& peer) {
    peer.accept_request(request_frame(0x40, 1));
    (void)peer.dut.end->post_send({.id = 1, .opcode = device::WorkOpcode::send, .sges = {peer.dut.piece(0, 30)}});
    peer.record();
  });
  scenario("close before the RTR indication", enhanced, [](ManualPeer& peer) {
    peer.accept_request(request_frame(0x50, 2, {0xc0, 0x01, 0xc0, 0x01}));
    peer.fin();
  });

  // Initiators
  const auto asks = [&](std::string_view name, const machines::MpaSettings& mpa, const ByteVector& reply) {
    scenario(name, mpa, [&](ManualPeer& peer) {
      peer.initiates(reply);
      (void)peer.dut.end->post_send({.id = 1, .opcode = device::WorkOpcode::send, .sges = {peer.dut.piece(0, 30)}});
      peer.record();
    });
  };
  auto peers = enhanced;
  peers.peer_to_peer = true;
  asks("connects", plain, reply_frame(0x40, 1));
  asks("receives a request", plain, request_frame(0x40, 1));
  asks("receives an unknown key", plain, setup_frame("MPA ID Xxx Frame", 0x40, 1));
  asks("is rejected", plain, reply_frame(0x60, 1, some(4)));
  asks("receives a reply of revision 3", plain, reply_frame(0x40, 3));
  asks("negotiates depths", enhanced, reply_frame(0x50, 2, {0x00, 0x02, 0x00, 0x02}));
  asks("receives an excessive depth", enhanced, reply_frame(0x50, 2, {0x00, 0x02, 0x00, 0x09}));
  for (const ByteVector& kinds :
       {ByteVector{0xc0, 2, 0, 2}, ByteVector{0x80, 2, 0x80, 2}, ByteVector{0x80, 2, 0x40, 2}})
    asks("peer to peer", peers, reply_frame(0x50, 2, kinds));
  auto writers = peers;
  writers.rtr = {.write = true};
  asks("has no common indication", writers, reply_frame(0x50, 2, {0xc0, 2, 0, 2}));
  scenario("FPDU after the reply", plain, [](ManualPeer& peer) {
    (void)peer.dut.end->connect({}, 0);
    peer.dut.receive(1, 1000, 64);
    peer.record();
    ByteVector bytes = reply_frame(0x40, 1);
    const ByteVector following = peer.fpdu(untagged(3, 0, 1, 0, some(6)));
    bytes.insert(bytes.end(), following.begin(), following.end());
    peer.send_bytes(bytes);
  });
  scenario("fails during MPA negotiation", peers, [](ManualPeer& peer) {
    peer.initiates(reply_frame(0x50, 2, {0x80, 2, 0x80, 2}));
    peer.dut.end->fail_locally();
    peer.record();
  });
}

}  // namespace rdmawire::endpoint::testing
