#include "conformance/device/iwarp/script_parts_for_test.hpp"

namespace rdmawire::endpoint::testing {

namespace {

using device::WorkOpcode;
namespace access = device::access;

constexpr std::uint8_t write = 0, read_request = 1, read_response = 2, send = 3, send_invalidate = 4, send_se = 5,
                       terminate = 7, immediate = 8, atomic = 10;

struct Player {
  std::optional<Fault> fault;
  Trace& trace;

  /// Run a part of the script in Full Operation Phase. The device has posted four receives of 64 bytes. A first Send
  /// has used one, so the next MSN is 2.
  template <class Play>
  void scenario(std::string_view name, const Play& play, machines::MpaSettings mpa = script_settings(1),
                RnicOptions rnic = {}) const {
    ManualPeer peer(name, fault, trace, mpa, rnic);
    peer.operates();
    play(peer, peer.dut);
  }
};

std::uint32_t foreign_stag(Consumer& dut) {
  return (*dut.rnic.register_region(dut.rnic.alloc_pd(), dut.buffer, 4096, Consumer::all_rights))->key;
}
std::uint32_t sealed_stag(Consumer& dut) {
  return (*dut.rnic.register_region(dut.pd, dut.buffer, 4096, access::local_write))->key;
}
/// Return the STag of a new fast registration, which can be invalidated.
std::uint32_t fast_stag(ManualPeer& peer) {
  Consumer& dut = peer.dut;
  const std::uint32_t handle = (*dut.rnic.memory().allocate_region(dut.rnic.new_handle(), dut.pd, 4096))->handle;
  (void)dut.end->post_send({.id = 70,
                            .opcode = WorkOpcode::reg_mr,
                            .region = handle,
                            .new_key = 3,
                            .address = dut.buffer,
                            .bytes_bound = 4096,
                            .iova = dut.buffer,
                            .rights = Consumer::all_rights});
  peer.record();
  return dut.rnic.memory().region(handle)->key;
}

void framing(const Player& player) {
  player.scenario("a bad CRC", [](ManualPeer& peer, Consumer&) {
    peer.send_bytes(
        peer.changed_fpdu(untagged(send, 0, 2, 0, some(9)), true, [](ByteVector& bytes) { bytes[25] ^= 4; }));
  });
  player.scenario("a bad CRC of a Write", [](ManualPeer& peer, Consumer& dut) {
    peer.send_bytes(peer.changed_fpdu(tagged(write, dut.stag, dut.buffer + 5000, some(9)), true,
                                      [](ByteVector& bytes) { bytes.back() ^= 4; }));
  });
  player.scenario("a pad of ones", [](ManualPeer& peer, Consumer&) {
    peer.send_bytes(peer.changed_fpdu(untagged(send, 0, 2, 0, some(9)), false,
                                      [](ByteVector& bytes) { bytes[bytes.size() - 5] = 1; }));
  });
  player.scenario("an FPDU in two", [](ManualPeer& peer, Consumer&) {
    const ByteVector whole = peer.fpdu(untagged(send, 0, 2, 0, some(9)));
    peer.send_bytes({whole.begin(), whole.begin() + 10});
    peer.send_bytes({whole.begin() + 10, whole.end()});
  });
  player.scenario("a short ULPDU", [](ManualPeer& peer, Consumer&) { peer.send_ulpdu({0x41, 0x43, 0, 0}); });
  player.scenario("an empty ULPDU", [](ManualPeer& peer, Consumer&) { peer.send_ulpdu({}); });
  auto markers = script_settings(1);
  markers.markers = true;
  player.scenario(
      "an inconsistent marker",
      [](ManualPeer& peer, Consumer& dut) {
        peer.send_bytes(
            peer.changed_fpdu(tagged(write, dut.stag, dut.buffer + 5000, some(700)), false, [](ByteVector& bytes) {
              for (std::size_t at = 0; at + 4 < bytes.size(); at += 4)
                if (bytes[at] == 0 && bytes[at + 1] == 0 && bytes[at + 2] != 0x5a && at > 100) bytes[at + 3] ^= 8;
            }));
      },
      markers);
}

void ddp(const Player& player) {
  const auto changed = [&](std::string_view name, ByteVector segment, std::size_t byte, std::uint8_t bits) {
    segment[byte] ^= bits;
    player.scenario(name, [&](ManualPeer& peer, Consumer&) { peer.send_ulpdu(segment); });
  };
  changed("DV 0, untagged", untagged(send, 0, 2, 0, some(4)), 0, 1);
  changed("reserved bits of DDP", untagged(send, 0, 2, 0, some(4)), 0, 0x14);
  changed("reserved bits of RDMAP", untagged(send, 0, 2, 0, some(4)), 1, 0x30);
  changed("RV 2", untagged(send, 0, 2, 0, some(4)), 1, 0xc0);
  changed("RV 0 of a read", untagged(read_request, 1, 1, 0, read_header(4, 1, 1)), 1, 0x40);
  changed("opcode 12", untagged(12, 0, 2, 0, some(4)), 0, 0);
  changed("a tagged Send", tagged(send, 1, 0, some(4)), 0, 0);
  changed("an untagged Write", untagged(write, 0, 2, 0, some(4)), 0, 0);
  changed("QN 5", untagged(send, 5, 1, 0, some(4)), 0, 0);
  changed("MSN 3", untagged(send, 0, 3, 0, some(4)), 0, 0);
  changed("MO 8", untagged(send, 0, 2, 8, some(4)), 0, 0);
  changed("MO 8 of nothing", untagged(send, 0, 2, 8), 0, 0);
  changed("too long", untagged(send, 0, 2, 0, some(65)), 0, 0);
  changed("empty", untagged(send, 0, 2, 0), 0, 0);
  player.scenario("DV 0, tagged", [](ManualPeer& peer, Consumer& dut) {
    ByteVector segment = tagged(write, dut.stag, dut.buffer + 5000, some(4));
    segment[0] ^= 1;
    peer.send_ulpdu(segment);
  });
  player.scenario("a gap in a message", [](ManualPeer& peer, Consumer&) {
    peer.send_ulpdu(untagged(send, 0, 2, 0, some(4), false));
    peer.send_ulpdu(untagged(send, 0, 2, 20, some(4, 0x33)));
  });
  player.scenario("no buffer", [](ManualPeer& peer, Consumer&) {
    for (std::uint32_t msn = 2; msn < 7; ++msn) peer.send_ulpdu(untagged(send, 0, msn, 0, some(4)));
  });
  const auto writes = [&](std::string_view name, const auto& stag, std::uint64_t offset, std::size_t bytes) {
    player.scenario(name, [&](ManualPeer& peer, Consumer& dut) {
      const std::uint32_t key = stag(dut);
      peer.send_ulpdu(tagged(write, key, offset < Consumer::bytes + 8 ? dut.buffer + offset : offset, some(bytes)));
      peer.send_ulpdu(tagged(write, dut.stag, dut.buffer + 6000, some(8)));
    });
  };
  const auto own = [](Consumer& dut) { return dut.stag; };
  writes(
      "an unknown STag", [](Consumer& dut) { return dut.stag ^ 0x100; }, 5000, 8);
  writes(
      "an unknown STag, empty message", [](Consumer& dut) { return dut.stag ^ 0x100; }, 5000, 0);
  writes("STag of another domain", foreign_stag, 100, 8);
  writes("STag without write access", sealed_stag, 100, 8);
  writes("after the end", own, Consumer::bytes - 4, 8);
  writes(
      "one byte after the end",
      [](Consumer& dut) {
        return (*dut.rnic.register_region(dut.pd, dut.buffer + 4000, 100, Consumer::all_rights))->key;
      },
      4093, 8);
  writes("wrapping TO", own, ~0ULL - 3, 8);
  player.scenario("a Write inside a Send", [](ManualPeer& peer, Consumer& dut) {
    peer.send_ulpdu(untagged(send, 0, 2, 0, some(4), false));
    peer.send_ulpdu(tagged(write, dut.stag, dut.buffer + 5000, some(8)));
    peer.send_ulpdu(untagged(send, 0, 2, 4, some(4)));
  });
  player.scenario("a FIN inside a message", [](ManualPeer& peer, Consumer&) {
    peer.send_ulpdu(untagged(send, 0, 2, 0, some(4), false));
    peer.fin();
  });
  player.scenario("data after a FIN", [](ManualPeer& peer, Consumer& dut) {
    (void)dut.end->post_send({.id = 2, .opcode = WorkOpcode::send, .sges = {dut.piece(0, 20)}});
    dut.end->peer_closed(++peer.now);
    peer.send_ulpdu(tagged(write, dut.stag, dut.buffer + 5000, some(8)));
  });
  player.scenario("two errors at once", [](ManualPeer& peer, Consumer&) {
    ByteVector both = peer.fpdu(untagged(send, 0, 9, 0, some(4)));
    const ByteVector second = peer.fpdu(untagged(send, 6, 1, 0, some(4)));
    both.insert(both.end(), second.begin(), second.end());
    peer.send_bytes(both);
  });
}

void rdmap(const Player& player) {
  const auto reads = [&](std::string_view name, const ByteVector& segment) {
    player.scenario(name, [&](ManualPeer& peer, Consumer&) { peer.send_ulpdu(segment); });
  };
  const auto reads_of = [&](std::string_view name, const auto& stag, std::uint64_t offset, std::uint32_t bytes,
                            std::uint32_t qn = 1, std::uint32_t mo = 0, std::size_t more = 0) {
    player.scenario(name, [&](ManualPeer& peer, Consumer& dut) {
      const std::uint32_t key = stag(dut);
      ByteVector header = read_header(bytes, key, offset <= Consumer::bytes ? dut.buffer + offset : offset);
      header.resize(header.size() + more);
      peer.send_ulpdu(untagged(read_request, qn, qn == 0 ? 2 : 1, mo, header));
    });
  };
  const auto own = [](Consumer& dut) { return dut.stag; };
  const auto unknown = [](Consumer& dut) { return dut.stag ^ 0x100; };
  reads_of("a read", own, 0, 20);
  reads_of("a read on queue 0", own, 0, 20, 0);
  reads_of("a read on queue 2", own, 0, 20, 2);
  reads_of("a read at MO 4", own, 0, 20, 1, 4);
  reads_of("a read with trailing bytes", own, 0, 20, 1, 0, 4);
  reads_of("a read of 0 bytes", unknown, 0, 0);
  reads_of("a read of an unknown STag", unknown, 0, 20);
  reads_of("a read of another domain", foreign_stag, 0, 20);
  reads_of("a read without read access", sealed_stag, 0, 20);
  reads_of("a read after the end", own, Consumer::bytes - 4, 20);
  reads_of("a read with wrapping TO", own, ~0ULL - 3, 20);
  reads("a truncated read request", untagged(read_request, 1, 1, 0, some(12)));
  reads("an unsolicited response", tagged(read_response, 5, 0, some(4)));
  player.scenario("more reads than the depth", [](ManualPeer& peer, Consumer& dut) {
    for (std::uint32_t msn = 1; msn <= 4; ++msn)
      peer.deliver(peer.fpdu(untagged(read_request, 1, msn, 0, read_header(4 * msn, dut.stag, dut.buffer + msn))));
    peer.record();
  });
  player.scenario("two reads", [](ManualPeer& peer, Consumer& dut) {
    for (std::uint32_t msn = 1; msn <= 2; ++msn)
      peer.deliver(peer.fpdu(untagged(read_request, 1, msn, 0, read_header(4 * msn, dut.stag, dut.buffer + msn))));
    peer.record();
  });
  player.scenario("a Write and a read of its data", [](ManualPeer& peer, Consumer& dut) {
    ByteVector both = peer.fpdu(tagged(write, dut.stag, dut.buffer + 5000, some(8)));
    const ByteVector read = peer.fpdu(untagged(read_request, 1, 1, 0, read_header(8, dut.stag, dut.buffer + 5000)));
    both.insert(both.end(), read.begin(), read.end());
    peer.send_bytes(both);
  });
  player.scenario("a Write and a Send", [](ManualPeer& peer, Consumer& dut) {
    ByteVector both = peer.fpdu(tagged(write, dut.stag, dut.buffer + 5000, some(8)));
    const ByteVector following = peer.fpdu(untagged(send, 0, 2, 0, some(4)));
    both.insert(both.end(), following.begin(), following.end());
    peer.send_bytes(both);
  });
  player.scenario("a solicited event", [](ManualPeer& peer, Consumer& dut) {
    dut.rnic.arm(dut.cq, true);
    peer.send_ulpdu(untagged(send, 0, 2, 0, some(4)));
    peer.send_ulpdu(untagged(send_se, 0, 3, 0, some(4)));
  });
  player.scenario("an STag that is invalidated", [](ManualPeer& peer, Consumer& dut) {
    const std::uint32_t key = fast_stag(peer);
    peer.send_ulpdu(untagged(send_invalidate, 0, 2, 0, some(4), true, key));
    peer.send_ulpdu(tagged(write, key, dut.buffer + 100, some(8)));
  });
  player.scenario("an STag that cannot be invalidated", [](ManualPeer& peer, Consumer& dut) {
    peer.send_ulpdu(untagged(send_invalidate, 0, 2, 0, some(4), true, dut.stag));
  });
  player.scenario("an STag that the application invalidated", [](ManualPeer& peer, Consumer& dut) {
    const std::uint32_t key = fast_stag(peer);
    (void)dut.end->post_send({.id = 71, .opcode = WorkOpcode::local_inv, .rkey = key});
    peer.record();
    peer.send_ulpdu(tagged(write, key, dut.buffer + 100, some(8)));
  });
  // Reads of the device under test
  const auto own_read = [&](std::string_view name, const ByteVector& response) {
    player.scenario(name, [&](ManualPeer& peer, Consumer& dut) {
      (void)dut.end->post_send(
          {.id = 80, .opcode = WorkOpcode::read, .sges = {dut.piece(8000, 16)}, .remote_address = 0x2000, .rkey = 5});
      peer.record();
      ByteVector segment = response;
      store_be(segment.data() + 2, 4, dut.stag);
      store_be(segment.data() + 6, 8, dut.buffer + load_be<8>(segment.data() + 6));
      peer.send_ulpdu(segment);
    });
  };
  own_read("valid response", tagged(read_response, 0, 8000, some(16)));
  own_read("response to another address", tagged(read_response, 0, 9000, some(16)));
  own_read("response that is too long", tagged(read_response, 0, 8000, some(24), false));
  own_read("response that is too short", tagged(read_response, 0, 8000, some(8)));
  player.scenario("deregistration during a read", [](ManualPeer& peer, Consumer& dut) {
    device::Region* region = *dut.rnic.register_region(dut.pd, dut.buffer, 9000, Consumer::all_rights);
    const std::uint32_t handle = region->handle;
    peer.deliver(peer.fpdu(untagged(read_request, 1, 1, 0, read_header(9000, region->key, dut.buffer))));
    peer.record(1000);
    (void)dut.rnic.memory().deregister(handle);
    peer.record();
  });
  player.scenario("an error during a message", [](ManualPeer& peer, Consumer& dut) {
    (void)dut.end->post_send({.id = 81, .opcode = WorkOpcode::send, .sges = {dut.piece(0, 9000)}});
    peer.record(1000);
    peer.deliver(peer.fpdu(untagged(send, 0, 9, 0, some(4))));
    peer.record();
  });
  player.scenario("a completion queue overflows", [&](ManualPeer& peer, Consumer& dut) {
    Consumer second(dut, script_settings(1));
    (void)second.end->await(0);
    second.end->received(request_frame(0x40, 1), 0);
    (void)second.end->accept({});
    (void)second.end->take(0);
    for (std::uint64_t id = 0; id < 300; ++id) dut.receive(id, 1000, 64);
    for (std::uint32_t msn = 2; msn < 300; ++msn) peer.deliver(peer.fpdu(untagged(send, 0, msn, 0, some(4))));
    peer.record();
    second.receive(1, 0, 64);
    ByteVector bytes;
    MpaSender sender({.markers = false, .crc = true});
    (void)sender.send(bytes, untagged(send, 0, 1, 0, some(4)));
    second.end->received(bytes, 1);
    note_consumer(second, player.trace.verbs);
  });
  player.scenario("a local failure", [](ManualPeer& peer, Consumer& dut) {
    dut.end->fail_locally();
    peer.record();
    peer.wait(2'000'000'000);
  });
}

void terminates(const Player& player) {
  const auto announced = [&](std::string_view name, const ByteVector& segment, bool receives) {
    player.scenario(name, [&](ManualPeer& peer, Consumer& dut) {
      if (!receives)
        for (std::uint32_t msn = 2; msn <= 4; ++msn) peer.send_ulpdu(untagged(send, 0, msn, 0, some(4)));
      (void)dut.end->post_send(
          {.id = 90, .opcode = WorkOpcode::read, .sges = {dut.piece(8000, 16)}, .remote_address = 1, .rkey = 5});
      peer.record();
      peer.send_ulpdu(segment);
      peer.wait(2'000'000'000);
    });
  };
  announced("a Terminate", untagged(terminate, 2, 1, 0, {0x12, 0x03, 0, 0}), true);
  announced("a Terminate without a receive", untagged(terminate, 2, 1, 0, {0x12, 0x03, 0, 0}), false);
  announced("a truncated Terminate", untagged(terminate, 2, 1, 0, {0x12, 0x03}), true);
  announced("a Terminate of MSN 2", untagged(terminate, 2, 2, 0, {0x12, 0x03, 0, 0}), true);
}

void extensions(const Player& player) {
  player.scenario("Immediate Data without extensions",
                  [](ManualPeer& peer, Consumer&) { peer.send_ulpdu(untagged(immediate, 0, 2, 0, some(8))); },
                  script_settings(1), {.extensions = false});
  for (const std::size_t bytes : {4, 8, 9})
    player.scenario("Immediate Data", [&](ManualPeer& peer, Consumer&) {
      peer.send_ulpdu(untagged(immediate, 0, 2, 0, some(bytes)));
      peer.send_ulpdu(untagged(send, 0, 3, 0, some(4)));
    });
  const auto atomics = [&](std::string_view name, std::uint32_t operation, AtomicWords words, std::uint64_t offset = 0,
                           std::uint32_t key_bits = 0) {
    player.scenario(name, [&](ManualPeer& peer, Consumer& dut) {
      peer.send_ulpdu(
          untagged(atomic, 1, 1, 0, atomic_header(operation, dut.stag ^ key_bits, dut.buffer + offset, words)));
      peer.wait(10);
    });
  };
  atomics("FetchAdd", 0, {.data = 0x0101010101010101});
  atomics("FetchAdd with carries", 0, {.data = 0xffffffffffffffff});
  atomics("FetchAdd in fields", 0, {.data = 0xffffffffffffffff, .mask = 0x8080808080808080});
  atomics("CmpSwap that matches in part", 2, {.data = 1, .mask = ~0ULL, .compare = 0, .compare_mask = 0});
  atomics("CmpSwap that does not match", 2, {.data = 1, .mask = ~0ULL});
  atomics("operation 1", 1, {.data = 1});
  atomics("not aligned", 0, {.data = 1}, 4);
  atomics("of an unknown STag", 0, {.data = 1}, 0, 0x100);
  player.scenario("more atomics than the depth", [](ManualPeer& peer, Consumer& dut) {
    for (std::uint32_t msn = 1; msn <= 4; ++msn)
      peer.deliver(peer.fpdu(untagged(atomic, 1, msn, 0, atomic_header(0, dut.stag, dut.buffer, {.data = 1}))));
    peer.record();
  });
}

}  // namespace

void play_errors(std::optional<Fault> fault, Trace& trace) {
  const Player player{fault, trace};
  framing(player);
  ddp(player);
  rdmap(player);
  terminates(player);
  extensions(player);
}

}  // namespace rdmawire::endpoint::testing
