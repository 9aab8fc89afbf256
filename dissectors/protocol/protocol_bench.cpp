// Compares decoding of a header stack with libtins, and the masked ICRC with one CRC of as many bytes without masking.
// Both measurements of a pair run in one process, and scripts/bench prints their ratio.

#include <benchmark/benchmark.h>
#include <isa-l.h>
#include <tins/tins.h>

#include <string>
#include <vector>

#include "dissectors/protocol/crc.hpp"
#include "dissectors/protocol/decode.hpp"
#include "dissectors/protocol/encode.hpp"
#include "dissectors/protocol/infiniband.hpp"
#include "dissectors/protocol/transport.hpp"

namespace {

using namespace rdmawire;

std::vector<std::uint8_t> write_frame(std::size_t payload) {
  Frame frame = Value<Ethernet>() / Value<Ipv4>().set<"src">(0x0a000002).set<"dst">(0x0a000003);
  frame /= Value<Udp>();
  frame /= Value<Bth>().set<"opcode">(0x0a).set<"dest_qp">(0x11).set<"psn">(7);
  frame /= Value<Reth>().set<"va">(0x7f0000001000).set<"rkey">(0x1234);
  frame.payload.assign(payload, 0x5a);
  return frame.encode();
}

// Decodes the whole stack: Ethernet, IPv4, UDP, BTH, RETH, payload, padding, ICRC.
void decode_rdmawire(benchmark::State& state) {
  const auto frame = write_frame(static_cast<std::size_t>(state.range(0)));
  HeaderStack stack;
  const DecodeOptions options;
  for (auto _ : state) {
    decode(stack, frame, LinkType::ethernet, static_cast<std::uint32_t>(frame.size()), options);
    benchmark::DoNotOptimize(stack.layers().data());
  }
}
BENCHMARK(decode_rdmawire)->Arg(64)->Arg(1024);

// Decodes the layers that libtins supports: Ethernet, IPv4 and UDP.
void decode_libtins(benchmark::State& state) {
  const auto frame = write_frame(static_cast<std::size_t>(state.range(0)));
  for (auto _ : state) {
    const Tins::EthernetII packet(frame.data(), static_cast<std::uint32_t>(frame.size()));
    benchmark::DoNotOptimize(packet.find_pdu<Tins::UDP>());
  }
}
BENCHMARK(decode_libtins)->Arg(64)->Arg(1024);

void icrc_masked(benchmark::State& state) {
  const auto frame = write_frame(static_cast<std::size_t>(state.range(0)) - 56);  // IPv4, UDP, BTH, RETH: 56 bytes
  const HeaderStack stack = decode(frame);
  for (auto _ : state) benchmark::DoNotOptimize(compute_icrc(stack));
  state.SetBytesProcessed(state.iterations() * state.range(0));
}
BENCHMARK(icrc_masked)->Arg(64)->Arg(256)->Arg(1024)->Arg(2048)->Arg(4096);

// Calls the library once with as many bytes as the ICRC covers, including the eight bytes of ones that replace the LRH.
void crc_raw(benchmark::State& state) {
  const std::vector<std::uint8_t> bytes(static_cast<std::size_t>(state.range(0)) + 8, 0x5a);
  for (auto _ : state) benchmark::DoNotOptimize(crc32_gzip_refl(0, bytes.data(), bytes.size()));
  state.SetBytesProcessed(state.iterations() * state.range(0));
}
BENCHMARK(crc_raw)->Arg(64)->Arg(256)->Arg(1024)->Arg(2048)->Arg(4096);

void mpa_crc32c(benchmark::State& state) {
  const std::vector<std::uint8_t> bytes(static_cast<std::size_t>(state.range(0)), 0x5a);
  for (auto _ : state) benchmark::DoNotOptimize(crc32c(bytes));
  state.SetBytesProcessed(state.iterations() * state.range(0));
}
BENCHMARK(mpa_crc32c)->Arg(64)->Arg(1024)->Arg(4096);

// Adds the selected CRC implementations to the "context" of the benchmark output. scripts/bench prints them.
[[maybe_unused]] const bool context = [] {
  const CrcKernels kernels = crc_kernels();
  benchmark::AddCustomContext("crc32", std::string(kernels.crc32));
  benchmark::AddCustomContext("crc32c", std::string(kernels.crc32c));
  benchmark::AddCustomContext("vcrc", std::string(kernels.vcrc));
  benchmark::AddCustomContext("icrc_mask", std::string(kernels.icrc_mask));
  return true;
}();

}  // namespace
