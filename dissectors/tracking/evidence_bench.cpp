// Measures how much the detection of upper layer protocols costs per packet, in addition to decoding.

#include <benchmark/benchmark.h>

#include "dissectors/protocol/cm.hpp"
#include "dissectors/protocol/decode.hpp"
#include "dissectors/protocol/encode.hpp"
#include "dissectors/protocol/infiniband.hpp"
#include "dissectors/protocol/transport.hpp"
#include "dissectors/tracking/evidence.hpp"

namespace rdmawire::tracking {
namespace {

std::vector<std::uint8_t> write_packet() {
  Frame frame = Value<Ethernet>() / Value<Ipv4>().set<"src">(0x0a000003).set<"dst">(0x0a000002) / Value<Udp>();
  frame /= Value<Bth>().set<"opcode">(0x06).set<"dest_qp">(0x123);
  frame /= Value<Reth>();
  frame.payload.resize(1024);
  return frame.encode();
}

/// Adds evidence of `connections` other connections.
void teach(Evidence& evidence, std::uint32_t connections) {
  Packet packet;
  const auto see = [&](Frame frame) {
    frame.payload.resize(256 - Mad::size - frame.layers.back().bytes().size());
    const auto bytes = frame.encode();
    decode(packet.stack, bytes, LinkType::ethernet, static_cast<std::uint32_t>(bytes.size()));
    evidence.apply(packet);
  };
  const auto mad = [](std::uint32_t from, std::uint32_t to) {
    Frame frame = Value<Ethernet>() / Value<Ipv4>().set<"src">(from).set<"dst">(to) / Value<Udp>();
    frame /= Value<Bth>().set<"opcode">(0x64).set<"dest_qp">(1);
    frame /= Value<Deth>();
    frame /= Value<Mad>();
    return frame;
  };
  for (std::uint32_t i = 0; i < connections; ++i) {
    const std::uint32_t from = 0x0a010000 + i, to = 0x0a000002;
    see(mad(from, to) / Value<CmReq>().set<"local_comm_id">(i).set<"service_id">(0x1061144).set<"local_qpn">(i));
    see(mad(to, from) / Value<CmRep>().set<"remote_comm_id">(i).set<"local_qpn">(i));
  }
}

void decode_alone(benchmark::State& state) {
  const auto bytes = write_packet();
  Packet packet;
  for (auto _ : state) {
    decode(packet.stack, bytes, LinkType::ethernet, static_cast<std::uint32_t>(bytes.size()));
    benchmark::DoNotOptimize(packet.stack.payload);
  }
}
BENCHMARK(decode_alone);

void decode_and_evidence(benchmark::State& state) {
  const auto bytes = write_packet();
  Packet packet;
  Evidence evidence;
  teach(evidence, static_cast<std::uint32_t>(state.range(0)));
  state.counters["known"] = static_cast<double>(evidence.known());
  for (auto _ : state) {
    decode(packet.stack, bytes, LinkType::ethernet, static_cast<std::uint32_t>(bytes.size()));
    evidence.apply(packet);
    benchmark::DoNotOptimize(packet.stack.payload);
  }
}
BENCHMARK(decode_and_evidence)->Arg(0)->Arg(1)->Arg(30000);

}  // namespace
}  // namespace rdmawire::tracking
