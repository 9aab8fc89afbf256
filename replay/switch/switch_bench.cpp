// Frames per second through the switch from one Unix wire to another, as between two virtual machines, with frames of
// 1082 bytes. Sender, switch and receiver run in one thread each.

#include <benchmark/benchmark.h>
#include <fmt/format.h>
#include <unistd.h>

#include <atomic>
#include <filesystem>
#include <thread>

#include "replay/switch/switch.hpp"
#include "replay/wires/sending.hpp"
#include "replay/wires/unix.hpp"

namespace rdmawire::replay {
namespace {

constexpr std::size_t burst = 1024;

void forwarded(benchmark::State& state, const char* faults) {
  const std::string base = std::filesystem::temp_directory_path() / ("switch_bench" + std::to_string(getpid()));
  auto host_a = open_unix_wire({.path = base + "a.peer", .local = base + "a"});
  auto host_b = open_unix_wire({.path = base + "b.peer", .local = base + "b"});
  auto port_a = open_unix_wire({.path = base + "a"}), port_b = open_unix_wire({.path = base + "b"});
  if (!host_a || !host_b || !port_a || !port_b) return state.SkipWithError("cannot create sockets");
  SwitchOptions options;
  options.faults = FaultProgram::compile(faults).value();
  std::vector<std::unique_ptr<Wire>> ports;
  ports.push_back(std::move(*port_a));
  ports.push_back(std::move(*port_b));
  auto fabric = Switch::start(std::move(ports), std::move(options));
  if (!fabric) return state.SkipWithError(fabric.error().message.c_str());

  std::vector<std::uint8_t> frame(1082, 0);
  store_be(frame.data(), 6, 0x02);
  store_be(frame.data() + 6, 6, 0x04);
  const std::vector<Outgoing> frames(burst, Outgoing{frame, 0});
  for (auto _ : state) {
    std::thread sender([&] { (void)send_all(**host_a, frames, (*host_a)->now() + 10'000'000'000); });
    for (std::size_t i = 0; i < burst; ++i)
      if (const auto got = (*host_b)->receive((*host_b)->now() + 10'000'000'000); !got || !*got) {
        const SwitchCounters counters = (*fabric)->counters();
        const std::string what =
            fmt::format("frame {} was lost: sent {}, full {}, down {} {}", i, counters.ports[1].sent,
                        counters.ports[1].queue_full, counters.ports[1].down, counters.ports[1].trouble);
        state.SkipWithError(what.c_str());
        break;
      }
    sender.join();
  }
  (*fabric)->stop();
  state.SetItemsProcessed(state.iterations() * static_cast<std::int64_t>(burst));
}
BENCHMARK_CAPTURE(forwarded, without_faults, "")->UseRealTime();
BENCHMARK_CAPTURE(forwarded, rules_that_pick_nothing, "drop psn +100 try 1 from b\ncorrupt payload where tcp")
    ->UseRealTime();

}  // namespace
}  // namespace rdmawire::replay
