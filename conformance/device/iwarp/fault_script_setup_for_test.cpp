#include "conformance/device/iwarp/script_parts_for_test.hpp"

namespace rdmawire::endpoint::testing {

void play_setup(std::optional<Fault> fault, Trace& trace) {
  const auto scene = [&](std::string_view name, const machines::MpaSettings& mpa, const auto& play) {
    ByHand hand(name, fault, trace, mpa);
    play(hand);
  };
  const auto plain = script_settings(1), enhanced = script_settings(2);
  const auto answers = [&](std::string_view name, const machines::MpaSettings& mpa, const ByteVector& request) {
    scene(name, mpa, [&](ByHand& hand) {
      hand.responds(request);
      for (std::uint64_t id = 1; id <= 3; ++id) hand.dut.receive(id, 2000 * id, 64);
      hand.says(untagged(3, 0, 1, 0, some(7)));
      (void)hand.dut.end->post_send({.id = 1, .opcode = device::WorkOpcode::send, .sges = {hand.dut.piece(0, 30)}});
      hand.look();
    });
  };

  // Responders
  answers("revision 1", plain, request_frame(0x40, 1));
  answers("revision 1 at one of revision 2", enhanced, request_frame(0x40, 1));
  answers("no CRC", plain, request_frame(0x00, 1));
  answers("reserved bits", plain, request_frame(0x4a, 1));
  answers("R in a request", plain, request_frame(0x60, 1));
  answers("revision 3", enhanced, request_frame(0x40, 3));
  answers("revision 0", plain, request_frame(0xc0, 0));
  answers("another key", plain, setup_frame("MPA ID Xxx Frame", 0x40, 1));
  answers("a reply's key", plain, reply_frame(0x40, 1));
  answers("300 bytes", plain, request_frame(0x40, 1, some(300)));
  answers("512 bytes", plain, request_frame(0x40, 1, some(512)));
  answers("513 bytes", plain, request_frame(0x40, 1, some(513)));
  answers("less private data than told", plain, request_frame(0x40, 1, some(3), 10));
  answers("more private data than told", plain, request_frame(0x40, 1, some(10), 3));
  answers("markers", plain, request_frame(0xc0, 1));
  answers("enhanced", enhanced, request_frame(0x50, 2, {0x00, 0x01, 0x00, 0x04}));
  answers("enhanced, peer to peer", enhanced, request_frame(0x50, 2, {0xc0, 0x01, 0xc0, 0x01}));
  answers("enhanced, all ones", enhanced, request_frame(0x50, 2, {0x3f, 0xff, 0x3f, 0xff}));
  answers("enhanced, short", enhanced, request_frame(0x50, 2, some(2, 0)));
  answers("enhanced, at one of revision 1", plain, request_frame(0x50, 2, {0x00, 0x01, 0x00, 0x04}));
  auto without_crc = plain, with_markers = plain;
  without_crc.crc = false;
  with_markers.markers = true;
  answers("CRC of the peer's wish", without_crc, request_frame(0x40, 1));
  answers("markers of its own", with_markers, request_frame(0x40, 1));
  scene("no CRCs: any value will do", without_crc, [](ByHand& hand) {
    hand.responds(request_frame(0x00, 1));
    hand.dut.receive(1, 1000, 64);
    hand.say(hand.changed_fpdu(untagged(3, 0, 1, 0, some(4)), true, [](ByteVector& bytes) { bytes.back() = 0x11; }));
  });
  scene("in pieces", plain, [](ByHand& hand) {
    (void)hand.dut.end->await(0);
    for (const std::uint8_t byte : request_frame(0x40, 1, some(2))) hand.say({byte});
    (void)hand.dut.end->accept({});
    hand.look();
  });
  scene("half, then silence", plain, [](ByHand& hand) {
    (void)hand.dut.end->await(0);
    hand.say(ByteVector(16, 'M'));
    hand.passes(10'000'000'000);
  });
  scene("half of the right ones, then silence", plain, [](ByHand& hand) {
    (void)hand.dut.end->await(0);
    ByteVector half = request_frame(0x40, 1);
    half.resize(12);
    hand.say(half);
    hand.passes(10'000'000'000);
  });
  scene("silence", plain, [](ByHand& hand) {
    (void)hand.dut.end->await(0);
    hand.passes(10'000'000'000);
  });
  scene("rejects", enhanced, [](ByHand& hand) { hand.responds(request_frame(0x50, 2, {0, 0, 0, 0}), false); });
  scene("sends before it was spoken to", plain, [](ByHand& hand) {
    hand.responds(request_frame(0x40, 1));
    (void)hand.dut.end->post_send({.id = 1, .opcode = device::WorkOpcode::send, .sges = {hand.dut.piece(0, 30)}});
    hand.look();
  });
  scene("closed before the indication", enhanced, [](ByHand& hand) {
    hand.responds(request_frame(0x50, 2, {0xc0, 0x01, 0xc0, 0x01}));
    hand.fin();
  });

  // Initiators
  const auto asks = [&](std::string_view name, const machines::MpaSettings& mpa, const ByteVector& reply) {
    scene(name, mpa, [&](ByHand& hand) {
      hand.initiates(reply);
      (void)hand.dut.end->post_send({.id = 1, .opcode = device::WorkOpcode::send, .sges = {hand.dut.piece(0, 30)}});
      hand.look();
    });
  };
  auto peers = enhanced;
  peers.peer_to_peer = true;
  asks("asks", plain, reply_frame(0x40, 1));
  asks("is asked", plain, request_frame(0x40, 1));
  asks("has another key", plain, setup_frame("MPA ID Xxx Frame", 0x40, 1));
  asks("is rejected", plain, reply_frame(0x60, 1, some(4)));
  asks("is answered in revision 3", plain, reply_frame(0x40, 3));
  asks("asks for depths", enhanced, reply_frame(0x50, 2, {0x00, 0x02, 0x00, 0x02}));
  asks("has no such depth", enhanced, reply_frame(0x50, 2, {0x00, 0x02, 0x00, 0x09}));
  for (const ByteVector& kinds :
       {ByteVector{0xc0, 2, 0, 2}, ByteVector{0x80, 2, 0x80, 2}, ByteVector{0x80, 2, 0x40, 2}})
    asks("peer to peer", peers, reply_frame(0x50, 2, kinds));
  auto writers = peers;
  writers.rtr = {.write = true};
  asks("shares no indication", writers, reply_frame(0x50, 2, {0xc0, 2, 0, 2}));
  scene("FPDU behind the reply", plain, [](ByHand& hand) {
    (void)hand.dut.end->connect({}, 0);
    hand.dut.receive(1, 1000, 64);
    hand.look();
    ByteVector bytes = reply_frame(0x40, 1);
    const ByteVector behind = hand.fpdu(untagged(3, 0, 1, 0, some(6)));
    bytes.insert(bytes.end(), behind.begin(), behind.end());
    hand.say(bytes);
  });
  scene("fails while it is set up", peers, [](ByHand& hand) {
    hand.initiates(reply_frame(0x50, 2, {0x80, 2, 0x80, 2}));
    hand.dut.end->fail_locally();
    hand.look();
  });
}

}  // namespace rdmawire::endpoint::testing
