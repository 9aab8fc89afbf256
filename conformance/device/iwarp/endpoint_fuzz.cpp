/// Bytes of any kind, raw or in FPDUs that are well formed, between verbs in any order: the endpoint never crashes,
/// hangs or grows, with faults and without.

#include <cstdlib>

#include "conformance/device/iwarp/script_parts_for_test.hpp"
#include "conformance/device/roce/input_for_test.hpp"

namespace rdmawire::endpoint {

using device::WorkOpcode;
using device::testing::Input;

namespace {

void require(bool holds) {
  if (!holds) std::abort();
}

/// An endpoint, and what is known of its peer.
struct FuzzFixture {
  FuzzFixture(const machines::MpaSettings& mpa, std::span<const Fault> faults, RnicOptions rnic)
      : dut(mpa, rnic, 1460, faults.empty() ? std::nullopt : std::optional(faults[0])) {
    for (const Fault fault : faults) dut.rnic.set_fault(fault);
  }

  void settle() {
    for (int i = 0; i < 64; ++i) {
      const Output output = dut.end->take(now, 8192);
      if (output.reset || output.fin) closed = true;
      if (output.empty()) break;
    }
    for (const auto& event : dut.events()) {
      ends += event.type == ConnectionEvent::Type::disconnected ? 1 : 0;
      if (event.type == ConnectionEvent::Type::request) {
        (void)dut.end->accept({});
        sender = MpaSender({.markers = dut.end->agreement().receive_markers, .crc = dut.end->agreement().crc});
      } else if (event.type == ConnectionEvent::Type::established) {
        sender = MpaSender({.markers = dut.end->agreement().receive_markers, .crc = dut.end->agreement().crc});
      }
    }
    (void)dut.poll();
    while (dut.rnic.next_event()) {
    }
    while (dut.rnic.next_notification()) {
    }
    // The end is told once, and no more than an FPDU waits for its rest.
    require(ends <= 1);
    require(dut.end->buffered() <= 140U << 10);
  }

  testing::Consumer dut;
  MpaSender sender{{}};
  std::int64_t now = 0;
  int ends = 0;
  bool closed = false;
};

testing::ByteVector bytes_of(Bytes bytes) { return {bytes.begin(), bytes.end()}; }

/// A segment near to what is expected.
testing::ByteVector segment(FuzzFixture& world, Input& input) {
  const std::uint8_t opcode = input.byte() & 15, how = input.byte();
  const std::uint32_t msn = input.byte();
  const std::uint64_t at = world.dut.buffer + input.number();
  const std::uint32_t key = (how & 1) != 0 ? input.number() : world.dut.stag;
  testing::ByteVector payload;
  if (opcode == 1)
    payload = testing::read_header((how & 2) != 0 ? input.number() : input.byte(), key, at);
  else if (opcode == 10)
    payload = testing::atomic_header(input.byte() & 3U, key, at & ~7ULL,
                                     {.data = input.number(), .mask = input.number(), .compare = input.byte()});
  else
    payload = bytes_of(input.take(input.byte()));
  const bool last = (how & 4) == 0;
  const RdmapOpcode& op = rdmap_opcode(opcode);
  testing::ByteVector made = op.tagged != ((how & 8) != 0)
                                 ? testing::tagged(opcode, key, at, payload, last)
                                 : testing::untagged(opcode, (how & 16) != 0 ? input.byte() : op.queue, msn,
                                                     (how & 32) != 0 ? input.number() : 0, payload, last, key);
  if ((how & 64) != 0 && !made.empty()) made[input.byte() % made.size()] ^= input.byte();
  return made;
}

void post(FuzzFixture& world, Input& input) {
  if (input.byte() % 3 == 0) {
    world.dut.receive(1, input.number() % 60'000, input.number() % 4096);
    return;
  }
  device::SendRequest request{.id = 2, .opcode = static_cast<WorkOpcode>(input.byte() % 14)};
  request.fence = (input.byte() & 1) != 0;
  request.sges = {world.dut.piece(input.number(), input.number())};
  request.remote_address = input.number();
  request.rkey = world.dut.stag;
  request.region = world.dut.region;
  (void)world.dut.end->post_send(std::move(request));
}

}  // namespace
}  // namespace rdmawire::endpoint

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace rdmawire::endpoint;
  Input input({data, std::min<std::size_t>(size, 4096)});
  std::vector<Fault> faults;
  for (unsigned count = input.byte() & 3U; count != 0; --count)
    faults.push_back(static_cast<Fault>(input.byte() % fault_count));
  const std::uint8_t how = input.byte();
  auto mpa = testing::script_settings((how & 1) != 0 ? 2 : 1);
  mpa.markers = (how & 2) != 0;
  mpa.crc = (how & 4) != 0;
  mpa.peer_to_peer = (how & 8) != 0;
  mpa.rdmac = (how & 16) != 0;
  FuzzFixture world(mpa, faults, {.seed = 1, .extensions = (how & 32) != 0});
  const bool initiates = (how & 64) != 0;
  if (initiates)
    (void)world.dut.end->connect({}, 0);
  else
    (void)world.dut.end->await(0);
  if ((how & 128) != 0) {
    const std::uint8_t flags = input.byte(), revision = input.byte() & 3U;
    const auto told = bytes_of(input.take(input.byte()));
    world.dut.end->received(
        initiates ? testing::reply_frame(flags, revision, told) : testing::request_frame(flags, revision, told), 0);
    world.settle();
    for (int i = 0; i < 4; ++i) world.dut.receive(3, 0, 256);
  }
  while (!input.empty()) {
    ++world.now;
    switch (input.byte() % 8) {
      case 0: world.dut.end->received(input.take(input.byte()), world.now); break;
      case 1:
      case 2:
      case 3: {
        testing::ByteVector fpdu;
        (void)world.sender.send(fpdu, segment(world, input));
        world.dut.end->received(fpdu, world.now);
        break;
      }
      case 4: post(world, input); break;
      case 5:
        world.now += std::int64_t{input.byte()} * 100'000'000;
        world.dut.end->woken(world.now);
        break;
      case 6: world.dut.end->set_emss(input.number()); break;
      default:
        switch (input.byte() % 8) {
          case 0: world.dut.end->peer_closed(world.now); break;
          case 1: world.dut.end->lost(world.now); break;
          case 2: world.dut.end->disconnect(); break;
          case 3: world.dut.end->fail_locally(); break;
          default: break;
        }
    }
    if ((input.byte() & 1) != 0) world.settle();
  }
  world.settle();
  return 0;
}
