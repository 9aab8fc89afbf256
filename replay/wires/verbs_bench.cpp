// Cost of the verbs: wire compared with a null wire, per frame: the fake libibverbs only counts posts and polls. Frames
// of 1082 bytes (a RoCEv2 packet with 1024 bytes of payload) and of 64 bytes. Requires root.

#include <benchmark/benchmark.h>

#include <cstdlib>
#include <vector>

#include "replay/wires/null.hpp"
#include "replay/wires/verbs.hpp"

namespace rdmawire::replay {
namespace {

void run(benchmark::State& state, Wire& wire) {
  // Like in the player: preloaded, and more frames than fit into the cache.
  const std::size_t bytes = static_cast<std::size_t>(state.range(0));
  const std::vector<std::uint8_t> room(bytes * 64, 0x5a);
  std::vector<Outgoing> frames;
  for (std::size_t i = 0; i < 64; ++i) frames.push_back({Bytes(room).subspan(i * bytes, bytes), 0});
  std::int64_t total = 0;
  for (auto _ : state) {
    const auto sent = wire.send(frames);
    if (!sent) return state.SkipWithError(sent.error().message.c_str());
    total += static_cast<std::int64_t>(*sent);
  }
  state.SetItemsProcessed(total);
  state.counters["ns_a_frame"] =
      benchmark::Counter(static_cast<double>(total) * 1e-9, benchmark::Counter::kIsRate | benchmark::Counter::kInvert);
}

void null(benchmark::State& state) { run(state, *make_null_wire()); }
BENCHMARK(null)->Arg(64)->Arg(1082);

void verbs(benchmark::State& state, bool requests, std::uint32_t inline_bytes) {
  setenv("FAKE_VERBS_DEVICES", "lo", 1);
  setenv("FAKE_VERBS_NOOP", "1", 1);
  VerbsWireOptions options;
  options.device = "lo";
  options.receive = VerbsWireOptions::Receive::nothing;
  options.max_bytes = 1518;
  options.requests = requests;
  options.inline_bytes = inline_bytes;
  const auto wire = open_verbs_wire(options);
  if (!wire) return state.SkipWithError(wire.error().message.c_str());
  run(state, **wire);
}
BENCHMARK_CAPTURE(verbs, ibv_post_send, false, 0)->Arg(64)->Arg(1082);
BENCHMARK_CAPTURE(verbs, ibv_wr, true, 0)->Arg(64)->Arg(1082);

}  // namespace
}  // namespace rdmawire::replay
