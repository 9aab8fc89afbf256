// Frames per second from one end to the other in one thread: the cost of the wire itself. Frames of 1082 bytes, as for
// a RoCEv2 packet with 1024 bytes of payload.

#include <benchmark/benchmark.h>
#include <sys/socket.h>
#include <unistd.h>

#include <filesystem>
#include <vector>

#include "replay/wires/pair.hpp"
#include "replay/wires/unix.hpp"

namespace rdmawire::replay {
namespace {

void run(benchmark::State& state, Wire& from, Wire& to, std::size_t batch) {
  const std::vector<std::uint8_t> frame(1082, 0x5a);
  const std::vector<Outgoing> frames(batch, Outgoing{frame, 0});
  std::int64_t total = 0;
  for (auto _ : state) {
    const auto sent = from.send(frames);
    if (!sent) return state.SkipWithError(sent.error().message.c_str());
    for (std::size_t i = 0; i < *sent; ++i) benchmark::DoNotOptimize(to.receive(0));
    total += static_cast<std::int64_t>(*sent);
  }
  state.SetItemsProcessed(total);
}

void pair_of_ends(benchmark::State& state) {
  const auto [a, b] = make_wire_pair();
  run(state, *a, *b, static_cast<std::size_t>(state.range(0)));
}
BENCHMARK(pair_of_ends)->Arg(1)->Arg(8)->Arg(64);

void unix_datagrams(benchmark::State& state) {
  const std::string path = std::filesystem::temp_directory_path() / ("wires_bench" + std::to_string(getpid()));
  const auto a = open_unix_wire({.path = path + ".b", .local = path + ".a"});
  const auto b = open_unix_wire({.path = path + ".a", .local = path + ".b"});
  if (!a || !b) return state.SkipWithError("cannot create sockets");
  run(state, **a, **b, static_cast<std::size_t>(state.range(0)));
}
BENCHMARK(unix_datagrams)->Arg(1)->Arg(8)->Arg(64);

}  // namespace
}  // namespace rdmawire::replay
