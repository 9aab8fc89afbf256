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

  /// In Full Operation Phase: four receives of 64 bytes less the one that a first Send took; MSN 2 comes next.
  template <class Play>
  void scene(std::string_view name, const Play& play, machines::MpaSettings mpa = script_settings(1),
             RnicOptions rnic = {}) const {
    ByHand hand(name, fault, trace, mpa, rnic);
    hand.operates();
    play(hand, hand.dut);
  }
};

std::uint32_t foreign_stag(Consumer& dut) {
  return (*dut.rnic.register_region(dut.rnic.alloc_pd(), dut.buffer, 4096, Consumer::all_rights))->key;
}
std::uint32_t sealed_stag(Consumer& dut) {
  return (*dut.rnic.register_region(dut.pd, dut.buffer, 4096, access::local_write))->key;
}
/// A region that can be invalidated, registered by work request.
std::uint32_t fast_stag(ByHand& hand) {
  Consumer& dut = hand.dut;
  const std::uint32_t handle = (*dut.rnic.memory().allocate_region(dut.rnic.new_handle(), dut.pd, 4096))->handle;
  (void)dut.end->post_send({.id = 70,
                            .opcode = WorkOpcode::reg_mr,
                            .region = handle,
                            .new_key = 3,
                            .address = dut.buffer,
                            .bytes_bound = 4096,
                            .iova = dut.buffer,
                            .rights = Consumer::all_rights});
  hand.look();
  return dut.rnic.memory().region(handle)->key;
}

void framing(const Player& player) {
  player.scene("a bad CRC", [](ByHand& hand, Consumer&) {
    hand.say(hand.changed_fpdu(untagged(send, 0, 2, 0, some(9)), true, [](ByteVector& bytes) { bytes[25] ^= 4; }));
  });
  player.scene("a bad CRC of a Write", [](ByHand& hand, Consumer& dut) {
    hand.say(hand.changed_fpdu(tagged(write, dut.stag, dut.buffer + 5000, some(9)), true,
                               [](ByteVector& bytes) { bytes.back() ^= 4; }));
  });
  player.scene("a pad of ones", [](ByHand& hand, Consumer&) {
    hand.say(hand.changed_fpdu(untagged(send, 0, 2, 0, some(9)), false,
                               [](ByteVector& bytes) { bytes[bytes.size() - 5] = 1; }));
  });
  player.scene("an FPDU in two", [](ByHand& hand, Consumer&) {
    const ByteVector whole = hand.fpdu(untagged(send, 0, 2, 0, some(9)));
    hand.say({whole.begin(), whole.begin() + 10});
    hand.say({whole.begin() + 10, whole.end()});
  });
  player.scene("a short ULPDU", [](ByHand& hand, Consumer&) { hand.says({0x41, 0x43, 0, 0}); });
  player.scene("an empty ULPDU", [](ByHand& hand, Consumer&) { hand.says({}); });
  auto markers = script_settings(1);
  markers.markers = true;
  player.scene(
      "a marker that disagrees",
      [](ByHand& hand, Consumer& dut) {
        hand.say(hand.changed_fpdu(tagged(write, dut.stag, dut.buffer + 5000, some(700)), false, [](ByteVector& bytes) {
          for (std::size_t at = 0; at + 4 < bytes.size(); at += 4)
            if (bytes[at] == 0 && bytes[at + 1] == 0 && bytes[at + 2] != 0x5a && at > 100) bytes[at + 3] ^= 8;
        }));
      },
      markers);
}

void ddp(const Player& player) {
  const auto changed = [&](std::string_view name, ByteVector segment, std::size_t byte, std::uint8_t bits) {
    segment[byte] ^= bits;
    player.scene(name, [&](ByHand& hand, Consumer&) { hand.says(segment); });
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
  player.scene("DV 0, tagged", [](ByHand& hand, Consumer& dut) {
    ByteVector segment = tagged(write, dut.stag, dut.buffer + 5000, some(4));
    segment[0] ^= 1;
    hand.says(segment);
  });
  player.scene("a hole in a message", [](ByHand& hand, Consumer&) {
    hand.says(untagged(send, 0, 2, 0, some(4), false));
    hand.says(untagged(send, 0, 2, 20, some(4, 0x33)));
  });
  player.scene("no buffer", [](ByHand& hand, Consumer&) {
    for (std::uint32_t msn = 2; msn < 7; ++msn) hand.says(untagged(send, 0, msn, 0, some(4)));
  });
  const auto writes = [&](std::string_view name, const auto& stag, std::uint64_t offset, std::size_t bytes) {
    player.scene(name, [&](ByHand& hand, Consumer& dut) {
      const std::uint32_t key = stag(dut);
      hand.says(tagged(write, key, offset < Consumer::bytes + 8 ? dut.buffer + offset : offset, some(bytes)));
      hand.says(tagged(write, dut.stag, dut.buffer + 6000, some(8)));
    });
  };
  const auto own = [](Consumer& dut) { return dut.stag; };
  writes(
      "an unknown STag", [](Consumer& dut) { return dut.stag ^ 0x100; }, 5000, 8);
  writes(
      "an unknown STag of nothing", [](Consumer& dut) { return dut.stag ^ 0x100; }, 5000, 0);
  writes("another domain's STag", foreign_stag, 100, 8);
  writes("an STag without the right", sealed_stag, 100, 8);
  writes("beyond the end", own, Consumer::bytes - 4, 8);
  writes(
      "one byte beyond the end",
      [](Consumer& dut) {
        return (*dut.rnic.register_region(dut.pd, dut.buffer + 4000, 100, Consumer::all_rights))->key;
      },
      4093, 8);
  writes("around the end of all offsets", own, ~0ULL - 3, 8);
  player.scene("a Write inside of a Send", [](ByHand& hand, Consumer& dut) {
    hand.says(untagged(send, 0, 2, 0, some(4), false));
    hand.says(tagged(write, dut.stag, dut.buffer + 5000, some(8)));
    hand.says(untagged(send, 0, 2, 4, some(4)));
  });
  player.scene("a FIN inside of a message", [](ByHand& hand, Consumer&) {
    hand.says(untagged(send, 0, 2, 0, some(4), false));
    hand.fin();
  });
  player.scene("more behind a FIN", [](ByHand& hand, Consumer& dut) {
    (void)dut.end->post_send({.id = 2, .opcode = WorkOpcode::send, .sges = {dut.piece(0, 20)}});
    dut.end->peer_closed(++hand.now);
    hand.says(tagged(write, dut.stag, dut.buffer + 5000, some(8)));
  });
  player.scene("two errors at once", [](ByHand& hand, Consumer&) {
    ByteVector both = hand.fpdu(untagged(send, 0, 9, 0, some(4)));
    const ByteVector second = hand.fpdu(untagged(send, 6, 1, 0, some(4)));
    both.insert(both.end(), second.begin(), second.end());
    hand.say(both);
  });
}

void rdmap(const Player& player) {
  const auto reads = [&](std::string_view name, const ByteVector& segment) {
    player.scene(name, [&](ByHand& hand, Consumer&) { hand.says(segment); });
  };
  const auto reads_of = [&](std::string_view name, const auto& stag, std::uint64_t offset, std::uint32_t bytes,
                            std::uint32_t qn = 1, std::uint32_t mo = 0, std::size_t more = 0) {
    player.scene(name, [&](ByHand& hand, Consumer& dut) {
      const std::uint32_t key = stag(dut);
      ByteVector header = read_header(bytes, key, offset <= Consumer::bytes ? dut.buffer + offset : offset);
      header.resize(header.size() + more);
      hand.says(untagged(read_request, qn, qn == 0 ? 2 : 1, mo, header));
    });
  };
  const auto own = [](Consumer& dut) { return dut.stag; };
  const auto unknown = [](Consumer& dut) { return dut.stag ^ 0x100; };
  reads_of("a read", own, 0, 20);
  reads_of("a read on queue 0", own, 0, 20, 0);
  reads_of("a read on queue 2", own, 0, 20, 2);
  reads_of("a read at MO 4", own, 0, 20, 1, 4);
  reads_of("a read with more behind it", own, 0, 20, 1, 0, 4);
  reads_of("a read of nothing", unknown, 0, 0);
  reads_of("a read of an unknown STag", unknown, 0, 20);
  reads_of("a read of another domain", foreign_stag, 0, 20);
  reads_of("a read without the right", sealed_stag, 0, 20);
  reads_of("a read beyond the end", own, Consumer::bytes - 4, 20);
  reads_of("a read around the end", own, ~0ULL - 3, 20);
  reads("half a read", untagged(read_request, 1, 1, 0, some(12)));
  reads("a response that nobody asked for", tagged(read_response, 5, 0, some(4)));
  player.scene("more reads than the depth", [](ByHand& hand, Consumer& dut) {
    for (std::uint32_t msn = 1; msn <= 4; ++msn)
      hand.give(hand.fpdu(untagged(read_request, 1, msn, 0, read_header(4 * msn, dut.stag, dut.buffer + msn))));
    hand.look();
  });
  player.scene("two reads", [](ByHand& hand, Consumer& dut) {
    for (std::uint32_t msn = 1; msn <= 2; ++msn)
      hand.give(hand.fpdu(untagged(read_request, 1, msn, 0, read_header(4 * msn, dut.stag, dut.buffer + msn))));
    hand.look();
  });
  player.scene("a Write and a read of it", [](ByHand& hand, Consumer& dut) {
    ByteVector both = hand.fpdu(tagged(write, dut.stag, dut.buffer + 5000, some(8)));
    const ByteVector read = hand.fpdu(untagged(read_request, 1, 1, 0, read_header(8, dut.stag, dut.buffer + 5000)));
    both.insert(both.end(), read.begin(), read.end());
    hand.say(both);
  });
  player.scene("a Write and a Send", [](ByHand& hand, Consumer& dut) {
    ByteVector both = hand.fpdu(tagged(write, dut.stag, dut.buffer + 5000, some(8)));
    const ByteVector behind = hand.fpdu(untagged(send, 0, 2, 0, some(4)));
    both.insert(both.end(), behind.begin(), behind.end());
    hand.say(both);
  });
  player.scene("a solicited event", [](ByHand& hand, Consumer& dut) {
    dut.rnic.arm(dut.cq, true);
    hand.says(untagged(send, 0, 2, 0, some(4)));
    hand.says(untagged(send_se, 0, 3, 0, some(4)));
  });
  player.scene("an STag that is invalidated", [](ByHand& hand, Consumer& dut) {
    const std::uint32_t key = fast_stag(hand);
    hand.says(untagged(send_invalidate, 0, 2, 0, some(4), true, key));
    hand.says(tagged(write, key, dut.buffer + 100, some(8)));
  });
  player.scene("an STag that cannot be invalidated", [](ByHand& hand, Consumer& dut) {
    hand.says(untagged(send_invalidate, 0, 2, 0, some(4), true, dut.stag));
  });
  player.scene("an STag that the consumer invalidated", [](ByHand& hand, Consumer& dut) {
    const std::uint32_t key = fast_stag(hand);
    (void)dut.end->post_send({.id = 71, .opcode = WorkOpcode::local_inv, .rkey = key});
    hand.look();
    hand.says(tagged(write, key, dut.buffer + 100, some(8)));
  });
  // Its own reads
  const auto own_read = [&](std::string_view name, const ByteVector& response) {
    player.scene(name, [&](ByHand& hand, Consumer& dut) {
      (void)dut.end->post_send(
          {.id = 80, .opcode = WorkOpcode::read, .sges = {dut.piece(8000, 16)}, .remote_address = 0x2000, .rkey = 5});
      hand.look();
      ByteVector segment = response;
      store_be(segment.data() + 2, 4, dut.stag);
      store_be(segment.data() + 6, 8, dut.buffer + load_be<8>(segment.data() + 6));
      hand.says(segment);
    });
  };
  own_read("its response", tagged(read_response, 0, 8000, some(16)));
  own_read("its response elsewhere", tagged(read_response, 0, 9000, some(16)));
  own_read("its response, too long", tagged(read_response, 0, 8000, some(24), false));
  own_read("its response, too short", tagged(read_response, 0, 8000, some(8)));
  player.scene("memory that goes while it is read", [](ByHand& hand, Consumer& dut) {
    device::Region* region = *dut.rnic.register_region(dut.pd, dut.buffer, 9000, Consumer::all_rights);
    const std::uint32_t handle = region->handle;
    hand.give(hand.fpdu(untagged(read_request, 1, 1, 0, read_header(9000, region->key, dut.buffer))));
    hand.look(1000);
    (void)dut.rnic.memory().deregister(handle);
    hand.look();
  });
  player.scene("an error while a message is sent", [](ByHand& hand, Consumer& dut) {
    (void)dut.end->post_send({.id = 81, .opcode = WorkOpcode::send, .sges = {dut.piece(0, 9000)}});
    hand.look(1000);
    hand.give(hand.fpdu(untagged(send, 0, 9, 0, some(4))));
    hand.look();
  });
  player.scene("a completion queue overflows", [&](ByHand& hand, Consumer& dut) {
    Consumer second(dut, script_settings(1));
    (void)second.end->await(0);
    second.end->received(request_frame(0x40, 1), 0);
    (void)second.end->accept({});
    (void)second.end->take(0);
    for (std::uint64_t id = 0; id < 300; ++id) dut.receive(id, 1000, 64);
    for (std::uint32_t msn = 2; msn < 300; ++msn) hand.give(hand.fpdu(untagged(send, 0, msn, 0, some(4))));
    hand.look();
    second.receive(1, 0, 64);
    ByteVector bytes;
    MpaSender sender({.markers = false, .crc = true});
    (void)sender.send(bytes, untagged(send, 0, 1, 0, some(4)));
    second.end->received(bytes, 1);
    note_consumer(second, player.trace.verbs);
  });
  player.scene("fails by itself", [](ByHand& hand, Consumer& dut) {
    dut.end->fail_locally();
    hand.look();
    hand.passes(2'000'000'000);
  });
}

void terminates(const Player& player) {
  const auto told = [&](std::string_view name, const ByteVector& segment, bool receives) {
    player.scene(name, [&](ByHand& hand, Consumer& dut) {
      if (!receives)
        for (std::uint32_t msn = 2; msn <= 4; ++msn) hand.says(untagged(send, 0, msn, 0, some(4)));
      (void)dut.end->post_send(
          {.id = 90, .opcode = WorkOpcode::read, .sges = {dut.piece(8000, 16)}, .remote_address = 1, .rkey = 5});
      hand.look();
      hand.says(segment);
      hand.passes(2'000'000'000);
    });
  };
  told("a Terminate", untagged(terminate, 2, 1, 0, {0x12, 0x03, 0, 0}), true);
  told("a Terminate without a receive", untagged(terminate, 2, 1, 0, {0x12, 0x03, 0, 0}), false);
  told("half a Terminate", untagged(terminate, 2, 1, 0, {0x12, 0x03}), true);
  told("a Terminate of MSN 2", untagged(terminate, 2, 2, 0, {0x12, 0x03, 0, 0}), true);
}

void extensions(const Player& player) {
  player.scene("Immediate Data where there is none",
               [](ByHand& hand, Consumer&) { hand.says(untagged(immediate, 0, 2, 0, some(8))); }, script_settings(1),
               {.extensions = false});
  for (const std::size_t bytes : {4, 8, 9})
    player.scene("Immediate Data", [&](ByHand& hand, Consumer&) {
      hand.says(untagged(immediate, 0, 2, 0, some(bytes)));
      hand.says(untagged(send, 0, 3, 0, some(4)));
    });
  const auto atomics = [&](std::string_view name, std::uint32_t operation, AtomicWords words, std::uint64_t offset = 0,
                           std::uint32_t key_bits = 0) {
    player.scene(name, [&](ByHand& hand, Consumer& dut) {
      hand.says(untagged(atomic, 1, 1, 0, atomic_header(operation, dut.stag ^ key_bits, dut.buffer + offset, words)));
      hand.passes(10);
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
  player.scene("more atomics than the depth", [](ByHand& hand, Consumer& dut) {
    for (std::uint32_t msn = 1; msn <= 4; ++msn)
      hand.give(hand.fpdu(untagged(atomic, 1, msn, 0, atomic_header(0, dut.stag, dut.buffer, {.data = 1}))));
    hand.look();
  });
}

}  // namespace

void play_wrongs(std::optional<Fault> fault, Trace& trace) {
  const Player player{fault, trace};
  framing(player);
  ddp(player);
  rdmap(player);
  terminates(player);
  extensions(player);
}

}  // namespace rdmawire::endpoint::testing
