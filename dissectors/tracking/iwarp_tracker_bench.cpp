// Measures how much iWARP tracking costs in addition to dissection: for an FPDU in its own segment, and for a TCP
// segment that is not iWARP.

#include <benchmark/benchmark.h>

#include "dissectors/protocol/ddp.hpp"
#include "dissectors/protocol/encode.hpp"
#include "dissectors/protocol/ip.hpp"
#include "dissectors/protocol/mpa.hpp"
#include "dissectors/protocol/rdmap.hpp"
#include "dissectors/protocol/transport.hpp"
#include "dissectors/tracking/dissector.hpp"
#include "dissectors/tracking/iwarp_tracker.hpp"

namespace rdmawire::tracking {
namespace {

struct Quiet final : Sink {};

using ByteVector = std::vector<std::uint8_t>;

// Interleaved connections that send RDMA Writes of 12 segments. Every second segment is acknowledged.
class Traffic {
 public:
  Traffic(std::uint32_t connections, bool iwarp) : connections_(connections), iwarp_(iwarp) {
    packet_.link = LinkType::raw_ip;
    seq_.resize(connections, 1);
    if (!iwarp) {
      // The capture does not contain the start of the connections, so dissection searches their first bytes.
      for (std::uint32_t i = 0; i < connections; ++i)
        for (const bool from_server : {false, true}) run(i, from_server, {}, nullptr, true);
      return;
    }
    for (std::uint32_t i = 0; i < connections; ++i)
      for (const bool request : {true, false}) {
        Value<MpaFrame> frame;
        const std::string_view key = request ? mpa::request_key : mpa::reply_key;
        frame.set<"key">(Bytes(reinterpret_cast<const std::uint8_t*>(key.data()), key.size())).set<"crc">(1);
        Frame out;
        out /= HeaderValue(frame);
        const ByteVector bytes = out.encode();
        run(i, !request, bytes, nullptr);
      }
  }
  /// Processes one segment with data, or its acknowledgement.
  template <class Tracker>
  void step(Tracker* tracker) {
    const std::uint32_t i = turn_ % connections_;
    const std::uint32_t n = turn_ / connections_;
    ++turn_;
    if (n % 3 == 2) return run(i, true, {}, tracker);
    if (fpdus_.empty()) make();
    run(i, false, iwarp_ ? Bytes(fpdus_[(n - n / 3) % 12]) : Bytes(other_), tracker);
  }

 private:
  void make() {
    for (unsigned k = 0; k < 12; ++k) {
      Frame f = Value<Fpdu>() / Value<Ddp>().set<"last">(k == 11) / Value<Rdmap>() /
                Value<DdpTagged>().set<"stag">(7).set<"to">(k * 1428);
      f.payload.resize(1428);
      fpdus_.push_back(f.encode());
    }
    other_.resize(1448, 0x20);
  }
  void run(std::uint32_t i, bool from_server, Bytes data, IwarpTracker* tracker, bool syn = false) {
    if (header_.empty()) header_ = (Value<Ipv4>() / Value<Tcp>().set<"ack">(1).set<"window">(1000)).encode();
    bytes_.assign(header_.begin(), header_.end());
    bytes_.insert(bytes_.end(), data.begin(), data.end());
    store_be(bytes_.data() + 2, 2, bytes_.size());
    const std::uint32_t client = 0x0a010000 + i, server = 0x0a000002;
    store_be(bytes_.data() + 12, 4, from_server ? server : client);
    store_be(bytes_.data() + 16, 4, from_server ? client : server);
    store_be(bytes_.data() + 20, 2, from_server ? 4210 : 40000);
    store_be(bytes_.data() + 22, 2, from_server ? 40000 : 4210);
    store_be(bytes_.data() + 24, 4, (from_server ? 1 : seq_[i]) - syn);
    bytes_[33] = syn ? 0x12 : 0x10;
    store_be(bytes_.data() + 28, 4, from_server ? seq_[i] : 1);
    if (!from_server) seq_[i] += static_cast<std::uint32_t>(data.size());
    ++packet_.number;
    packet_.time_ns += 1000;
    dissector_.dissect(packet_, bytes_, static_cast<std::uint32_t>(bytes_.size()));
    if (tracker) tracker->add(packet_);
    benchmark::DoNotOptimize(packet_.pdus.data());
  }

  std::uint32_t connections_, turn_ = 0;
  bool iwarp_;
  std::vector<std::uint32_t> seq_;
  std::vector<ByteVector> fpdus_;
  ByteVector other_, header_, bytes_;
  Packet packet_;
  Dissector dissector_;
};

void dissect_alone(benchmark::State& state) {
  Traffic traffic(static_cast<std::uint32_t>(state.range(0)), true);
  for (auto _ : state) traffic.step<IwarpTracker>(nullptr);
}
void dissect_and_track(benchmark::State& state) {
  Traffic traffic(static_cast<std::uint32_t>(state.range(0)), true);
  Quiet quiet;
  IwarpTracker tracker(quiet);
  for (auto _ : state) traffic.step(&tracker);
  state.counters["bytes_a_connection"] =
      static_cast<double>(tracker.memory()) / static_cast<double>(std::max<std::size_t>(tracker.size(), 1));
}
void other_tcp_alone(benchmark::State& state) {
  Traffic traffic(static_cast<std::uint32_t>(state.range(0)), false);
  for (auto _ : state) traffic.step<IwarpTracker>(nullptr);
}
void other_tcp_tracked(benchmark::State& state) {
  Traffic traffic(static_cast<std::uint32_t>(state.range(0)), false);
  Quiet quiet;
  IwarpTracker tracker(quiet);
  for (auto _ : state) traffic.step(&tracker);
}
BENCHMARK(dissect_alone)->Arg(1)->Arg(1000)->Arg(10000);
BENCHMARK(dissect_and_track)->Arg(1)->Arg(1000)->Arg(10000);
BENCHMARK(other_tcp_alone)->Arg(1)->Arg(1000);
BENCHMARK(other_tcp_tracked)->Arg(1)->Arg(1000);

}  // namespace
}  // namespace rdmawire::tracking
