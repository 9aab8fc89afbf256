/// Runs filters on a decoded packet. The goal is 10 million packets per second for a simple filter.

#include <benchmark/benchmark.h>

#include "dissectors/output/filter.hpp"
#include "dissectors/protocol/encode.hpp"
#include "dissectors/protocol/infiniband.hpp"
#include "dissectors/protocol/transport.hpp"
#include "dissectors/tracking/dissector.hpp"

namespace {

using namespace rdmawire;

void filter(benchmark::State& state, const char* expression) {
  const Frame frame = Frame(Value<Ethernet>() / Value<Ipv4>().set<"src">(0x0a000003)) / Value<Udp>() /
                      Value<Bth>().set<"opcode">(0x11).set<"psn">(100) / Value<Aeth>().set<"syndrome">(0x60);
  const std::vector<std::uint8_t> bytes = frame.encode();
  tracking::Packet packet;
  tracking::Dissector().dissect(packet, bytes, static_cast<std::uint32_t>(bytes.size()));
  const auto compiled = output::Filter::compile(expression);
  for (auto _ : state) {
    benchmark::DoNotOptimize(packet);
    benchmark::DoNotOptimize(compiled->matches(packet));
  }
  state.SetItemsProcessed(state.iterations());
}
BENCHMARK_CAPTURE(filter, number, "bth.opcode == 17");
BENCHMARK_CAPTURE(filter, absent, "reth.rkey == 17");
BENCHMARK_CAPTURE(filter, set, "bth.psn in {1..5, 7, 100}");
BENCHMARK_CAPTURE(filter, joined, "aeth.syndrome.kind == nak and ip.src == 10.0.0.0/24 and not bth.se");
BENCHMARK_CAPTURE(filter, derived, "opcode.operation == acknowledge and icrc.status == good");
BENCHMARK_CAPTURE(filter, wireshark, "infiniband.bth.psn > 50");

}  // namespace
