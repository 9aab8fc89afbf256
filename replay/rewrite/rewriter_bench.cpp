// Cost of rewriting a frame with incremental update and with recomputation of the ICRC, compared with copying the
// frame.

#include <benchmark/benchmark.h>

#include <cstring>

#include "dissectors/protocol/crc.hpp"
#include "dissectors/protocol/decode.hpp"
#include "replay/faults/frames_for_test.hpp"
#include "replay/rewrite/rewriter.hpp"

namespace rdmawire::replay {
namespace {

using namespace testing;

std::vector<std::uint8_t> write_frame(std::size_t payload) {
  Frame frame = between(true) / Value<Udp>() / Value<Bth>().set<"opcode">(0x0a).set<"psn">(1000).set<"dest_qp">(0x11) /
                Value<Reth>().set<"rkey">(0x1234).set<"va">(0x7f0000001000).set<"length">(payload);
  frame.payload.assign(payload, 0x5a);
  return frame.encode();
}

FlowMap map() {
  MappedConnection c;
  c.at(Side::a).address = {PortAddress::of_ipv4(0x0a000002), PortAddress::of_ipv4(0xc0a80102)};
  c.at(Side::b).address = {PortAddress::of_ipv4(0x0a000003), PortAddress::of_ipv4(0xc0a80103)};
  c.at(Side::a).mac.live = 0x020000000001;
  c.at(Side::b).mac.live = 0x020000000002;
  c.at(Side::a).qp = {0x12, 0x777};
  c.at(Side::b).qp = {0x11, 0x888};
  c.at(Side::a).psn = {1000, 5};
  c.at(Side::b).regions = {{{0x1234, 0xabcd}, {0x7f0000001000, 0x1000}, 0x10000}};
  return {{c}, {}};
}

void rewrite(benchmark::State& state, CrcPolicy crc) {
  const auto frame = write_frame(static_cast<std::size_t>(state.range(0)));
  RewriteOptions options;
  options.crc = crc;
  const Rewriter rewriter(map(), options);
  std::vector<std::uint8_t> room(frame.size() + Rewriter::growth);
  HeaderStack stack;
  for (auto _ : state) {
    decode(stack, frame, LinkType::ethernet, static_cast<std::uint32_t>(frame.size()));
    benchmark::DoNotOptimize(rewriter.rewrite(stack, room).frame.data());
    benchmark::ClobberMemory();
  }
  state.SetItemsProcessed(state.iterations());
}
void rewrite_following(benchmark::State& state) { rewrite(state, CrcPolicy::follow); }
void rewrite_computing(benchmark::State& state) { rewrite(state, CrcPolicy::recompute); }
BENCHMARK(rewrite_following)->Arg(64)->Arg(1024)->Arg(4096);
BENCHMARK(rewrite_computing)->Arg(64)->Arg(1024)->Arg(4096);

void copy_alone(benchmark::State& state) {
  const auto frame = write_frame(static_cast<std::size_t>(state.range(0)));
  std::vector<std::uint8_t> room(frame.size());
  for (auto _ : state) {
    std::memcpy(room.data(), frame.data(), frame.size());
    benchmark::DoNotOptimize(room.data());
    benchmark::ClobberMemory();
  }
}
BENCHMARK(copy_alone)->Arg(64)->Arg(1024)->Arg(4096);

// Only the ICRC.
void icrc_following(benchmark::State& state) {
  const auto frame = write_frame(static_cast<std::size_t>(state.range(0)));
  const HeaderStack stack = decode(frame);
  auto after = frame;
  constexpr std::uint32_t end = 14 + 56;
  after[14 + 15] ^= 0x55;
  after[14 + 39] ^= 0x07;
  for (auto _ : state) benchmark::DoNotOptimize(icrc_of_change(stack, after, end));
}
void icrc_computing(benchmark::State& state) {
  const auto frame = write_frame(static_cast<std::size_t>(state.range(0)));
  const HeaderStack stack = decode(frame);
  for (auto _ : state) benchmark::DoNotOptimize(compute_icrc(stack));
}
BENCHMARK(icrc_following)->Arg(64)->Arg(1024)->Arg(4096);
BENCHMARK(icrc_computing)->Arg(64)->Arg(1024)->Arg(4096);

}  // namespace
}  // namespace rdmawire::replay
