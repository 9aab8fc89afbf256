/// Fuzz target: random bytes or FPDUs and random verbs calls must not crash or hang an endpoint, or exhaust its memory,
/// with and without faults.

#include <cstdlib>

#include "conformance/device/iwarp/script_parts_for_test.hpp"
#include "conformance/device/roce/input_for_test.hpp"

namespace rdmawire::endpoint {

using device::WorkOpcode;
using device::testing::Input;

namespace {

void require(bool condition) {
  if (!condition) std::abort();
}

/// An endpoint and the state of its peer.
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
    // The end is reported at most once, and at most one incomplete FPDU is buffered.
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

/// Return a segment that is valid or almost valid.
testing::ByteVector segment(FuzzFixture& fixture, Input& input) {
  const std::uint8_t opcode = input.byte() & 15, variant = input.byte();
  const std::uint32_t msn = input.byte();
  const std::uint64_t at = fixture.dut.buffer + input.number();
  const std::uint32_t key = (variant & 1) != 0 ? input.number() : fixture.dut.stag;
  testing::ByteVector payload;
  if (opcode == 1)
    payload = testing::read_header((variant & 2) != 0 ? input.number() : input.byte(), key, at);
  else if (opcode == 10)
    payload = testing::atomic_header(input.byte() & 3U, key, at & ~7ULL,
                                     {.data = input.number(), .mask = input.number(), .compare = input.byte()});
  else
    payload = bytes_of(input.take(input.byte()));
  const bool last = (variant & 4) == 0;
  const RdmapOpcode& op = rdmap_opcode(opcode);
  testing::ByteVector made = op.tagged != ((variant & 8) != 0)
                                 ? testing::tagged(opcode, key, at, payload, last)
                                 : testing::untagged(opcode, (variant & 16) != 0 ? input.byte() : op.queue, msn,
                                                     (variant & 32) != 0 ? input.number() : 0, payload, last, key);
  if ((variant & 64) != 0 && !made.empty()) made[input.byte() % made.size()] ^= input.byte();
  return made;
}

void post(FuzzFixture& fixture, Input& input) {
  if (input.byte() % 3 == 0) {
    fixture.dut.receive(1, input.number() % 60'000, input.number() % 4096);
    return;
  }
  device::SendRequest request{.id = 2, .opcode = static_cast<WorkOpcode>(input.byte() % 14)};
  request.fence = (input.byte() & 1) != 0;
  request.sges = {fixture.dut.piece(input.number(), input.number())};
  request.remote_address = input.number();
  request.rkey = fixture.dut.stag;
  request.region = fixture.dut.region;
  (void)fixture.dut.end->post_send(std::move(request));
}

}  // namespace
}  // namespace rdmawire::endpoint

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace rdmawire::endpoint;
  Input input({data, std::min<std::size_t>(size, 4096)});
  std::vector<Fault> faults;
  for (unsigned count = input.byte() & 3U; count != 0; --count)
    faults.push_back(static_cast<Fault>(input.byte() % fault_count));
  const std::uint8_t variant = input.byte();
  auto mpa = testing::script_settings((variant & 1) != 0 ? 2 : 1);
  mpa.markers = (variant & 2) != 0;
  mpa.crc = (variant & 4) != 0;
  mpa.peer_to_peer = (variant & 8) != 0;
  mpa.rdmac = (variant & 16) != 0;
  FuzzFixture fixture(mpa, faults, {.seed = 1, .extensions = (variant & 32) != 0});
  const bool initiates = (variant & 64) != 0;
  if (initiates)
    (void)fixture.dut.end->connect({}, 0);
  else
    (void)fixture.dut.end->await(0);
  if ((variant & 128) != 0) {
    const std::uint8_t flags = input.byte(), revision = input.byte() & 3U;
    const auto reported = bytes_of(input.take(input.byte()));
    fixture.dut.end->received(
        initiates ? testing::reply_frame(flags, revision, reported) : testing::request_frame(flags, revision, reported),
        0);
    fixture.settle();
    for (int i = 0; i < 4; ++i) fixture.dut.receive(3, 0, 256);
  }
  while (!input.empty()) {
    ++fixture.now;
    switch (input.byte() % 8) {
      case 0: fixture.dut.end->received(input.take(input.byte()), fixture.now); break;
      case 1:
      case 2:
      case 3: {
        testing::ByteVector fpdu;
        (void)fixture.sender.send(fpdu, segment(fixture, input));
        fixture.dut.end->received(fpdu, fixture.now);
        break;
      }
      case 4: post(fixture, input); break;
      case 5:
        fixture.now += std::int64_t{input.byte()} * 100'000'000;
        fixture.dut.end->woken(fixture.now);
        break;
      case 6: fixture.dut.end->set_emss(input.number()); break;
      default:
        switch (input.byte() % 8) {
          case 0: fixture.dut.end->peer_closed(fixture.now); break;
          case 1: fixture.dut.end->lost(fixture.now); break;
          case 2: fixture.dut.end->disconnect(); break;
          case 3: fixture.dut.end->fail_locally(); break;
          default: break;
        }
    }
    if ((input.byte() & 1) != 0) fixture.settle();
  }
  fixture.settle();
  return 0;
}
