/// Measures the analysis without dissection: a packet, a message, an event, and the peek at a frame.

#include <benchmark/benchmark.h>

#include <vector>

#include "captures/analysis/analysis.hpp"
#include "captures/analysis/peek.hpp"
#include "dissectors/protocol/decode.hpp"
#include "dissectors/protocol/encode.hpp"
#include "dissectors/protocol/ethernet.hpp"
#include "dissectors/protocol/infiniband.hpp"
#include "dissectors/protocol/ip.hpp"
#include "dissectors/protocol/transport.hpp"

namespace rdmawire::captures::analysis {
namespace {

/// RoCEv2 packets between `pairs` pairs of addresses, in bursts of 4 packets per pair.
struct Traffic {
  explicit Traffic(std::uint32_t pairs) : frames(pairs), packets(pairs) {
    for (std::uint32_t pair = 0; pair < pairs; ++pair) {
      frames[pair] =
          Frame(Value<Ethernet>() / Value<Ipv4>().set<"src">(0x0a000000 + pair).set<"dst">(0x0a800000 + pair) /
                Value<Udp>().set<"src_port">(0xc000 + pair % 64) /
                Value<Bth>().set<"opcode">(0x07).set<"dest_qp">(0x11 + pair))
              .encode();
      packets[pair].number = pair + 1;
      decode(packets[pair].stack, frames[pair], LinkType::ethernet, static_cast<std::uint32_t>(frames[pair].size()));
    }
  }
  std::vector<std::vector<std::uint8_t>> frames;
  std::vector<tracking::Packet> packets;
};

void Packet(benchmark::State& state) {
  Traffic traffic(static_cast<std::uint32_t>(state.range(0)));
  Analysis analysis;
  std::size_t at = 0;
  std::int64_t time = 1'732'163'000'000'000'000;
  for (auto _ : state) {
    tracking::Packet& packet = traffic.packets[at++ / 4 % traffic.packets.size()];
    packet.time_ns = time += 100;
    analysis.add(packet);
  }
  state.SetItemsProcessed(state.iterations());
}
BENCHMARK(Packet)->Arg(1)->Arg(28)->Arg(1000)->Arg(30000);

void PeekFrame(benchmark::State& state) {
  const Traffic traffic(1000);
  std::size_t at = 0;
  for (auto _ : state) {
    const auto& frame = traffic.frames[at++ % traffic.frames.size()];
    const Peek seen = peek(frame, LinkType::ethernet, static_cast<std::uint32_t>(frame.size()));
    benchmark::DoNotOptimize(seen.pair_hash());
  }
  state.SetItemsProcessed(state.iterations());
}
BENCHMARK(PeekFrame);

void OneMessage(benchmark::State& state) {
  Analysis analysis;
  Connection connection;
  connection.id = 1;
  Message message;
  message.kind = MessageKind::write;
  message.has_remote = true;
  message.size = 4096;
  std::int64_t time = 1'732'163'000'000'000'000;
  for (auto _ : state) {
    message.start = time += 1000;
    message.answer_time = time + 5000 + time % 997;
    message.key = static_cast<std::uint32_t>(time / 1000 % 64);
    analysis.message(connection, message);
  }
  state.SetItemsProcessed(state.iterations());
}
BENCHMARK(OneMessage);

void OneEvent(benchmark::State& state) {
  Analysis analysis;
  Connection connection;
  Event event;
  event.kind = EventKind::ecn_marked;
  event.time = 1'732'163'000'000'000'000;
  for (auto _ : state) {
    ++event.frame;
    event.connection = connection.id = 1 + event.frame % 1000;
    analysis.event(&connection, event);
  }
  state.SetItemsProcessed(state.iterations());
}
BENCHMARK(OneEvent);

}  // namespace
}  // namespace rdmawire::captures::analysis
