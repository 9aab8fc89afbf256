/// Writes a capture of synthetic RoCEv2 traffic for benchmarks: RC connections with WRITE, SEND and READ, without loss.
///
///     make_traffic OUT.pcap [--frames N] [--connections N] [--pairs N] [--burst N] [--mtu N] [--seed N]
///
/// Selects random connections, each for `burst` packets. `mtu`: bytes of payload in a packet of a long message.

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include "captures/io/writer.hpp"
#include "dissectors/protocol/encode.hpp"
#include "dissectors/protocol/ethernet.hpp"
#include "dissectors/protocol/infiniband.hpp"
#include "dissectors/protocol/ip.hpp"
#include "dissectors/protocol/opcode.hpp"
#include "dissectors/protocol/transport.hpp"

namespace {

using namespace rdmawire;

struct Connection {
  std::uint32_t addresses[2];
  std::uint32_t qps[2];
  std::uint16_t port;
  std::uint32_t psn;
  std::uint32_t msn = 0;
  unsigned kind = 0, step = 0;
  std::uint32_t first_psn = 0;
};

/// Returns the template of a packet, without addresses, queue pair and PSN.
Frame frame_of(Operation operation, Position position, std::size_t payload, std::uint64_t message) {
  const Opcode* op = find_opcode(Transport::rc, operation, position);
  Frame frame = Value<Ethernet>() / Value<Ipv4>().set<"ttl">(64).set<"df">(1) / Value<Udp>().set<"dst_port">(4791) /
                Value<Bth>().set<"opcode">(op->value).set<"pkey">(0xffff).set<"ack_request">(
                    op->direction == Direction::request && op->ends_message());
  for (const HeaderInfo* header : op->extension_headers()) {
    if (header == &info<Reth>)
      frame /= Value<Reth>().set<"va">(0x7f0000001000).set<"rkey">(0x1234).set<"length">(message);
    else
      frame /= Value<Aeth>().set<"syndrome">(Syndrome::ack().bits());
  }
  frame.payload.assign(payload, 0x5a);
  return frame;
}

struct Stage {
  Frame frame;
  bool response;
  std::uint32_t psn;  // PSN relative to the first one of the message
  bool counts;        // the packet completes a message at the responder
};

std::vector<std::vector<Stage>> scripts(std::size_t mtu) {
  using enum Operation;
  using enum Position;
  const auto frame_of = [mtu](Operation operation, Position position, std::size_t payload) {
    return ::frame_of(operation, position, payload, 4 * mtu);
  };
  std::vector<std::vector<Stage>> all(3);
  all[0] = {{frame_of(rdma_write, first, mtu), false, 0, false},
            {frame_of(rdma_write, middle, mtu), false, 1, false},
            {frame_of(rdma_write, middle, mtu), false, 2, false},
            {frame_of(rdma_write, last, mtu), false, 3, false},
            {frame_of(acknowledge, only, 0), true, 3, true}};
  all[1] = {{frame_of(send, only, 64), false, 0, false}, {frame_of(acknowledge, only, 0), true, 0, true}};
  all[2] = {{frame_of(rdma_read_request, only, 0), false, 0, false},
            {frame_of(rdma_read_response, first, mtu), true, 0, true},
            {frame_of(rdma_read_response, middle, mtu), true, 1, false},
            {frame_of(rdma_read_response, middle, mtu), true, 2, false},
            {frame_of(rdma_read_response, last, mtu), true, 3, false}};
  return all;
}

std::uint64_t number(int argc, char** argv, std::string_view name, std::uint64_t otherwise) {
  for (int i = 2; i + 1 < argc; ++i)
    if (argv[i] == name) return std::strtoull(argv[i + 1], nullptr, 10);
  return otherwise;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2) {
    std::fputs(
        "usage: make_traffic OUT.pcap [--frames N] [--connections N] [--pairs N] [--burst N] [--mtu N] "
        "[--seed N]\n",
        stderr);
    return 2;
  }
  const std::uint64_t frames = number(argc, argv, "--frames", 1'000'000);
  const std::uint64_t connections = number(argc, argv, "--connections", 1000);
  const std::uint64_t pairs = number(argc, argv, "--pairs", 28);
  const std::uint64_t burst = number(argc, argv, "--burst", 32);
  const std::uint64_t mtu = number(argc, argv, "--mtu", 256);
  std::mt19937_64 random(number(argc, argv, "--seed", 1));

  // Use as many hosts as the number of pairs requires.
  std::vector<std::pair<std::uint32_t, std::uint32_t>> ports;
  for (std::uint32_t b = 1; ports.size() < pairs; ++b)
    for (std::uint32_t a = 0; a < b && ports.size() < pairs; ++a) ports.emplace_back(0x0a000001 + a, 0x0a000001 + b);
  std::vector<Connection> all(connections);
  for (std::size_t i = 0; i < all.size(); ++i) {
    const auto [a, b] = ports[i % ports.size()];
    const auto qp = static_cast<std::uint32_t>(0x100 + i);
    all[i] = {{a, b},
              {qp, qp + 0x40000},
              static_cast<std::uint16_t>(0xc000 | random() % 0x4000),
              static_cast<std::uint32_t>(random() & 0xffffff)};
  }

  std::vector<std::vector<Stage>> script = scripts(mtu);
  auto writer = captures::Writer::create(argv[1]);
  if (!writer || !writer->add_interface({})) {
    std::fprintf(stderr, "make_traffic: %s: cannot create the file\n", argv[1]);
    return 3;
  }
  captures::Record record;
  std::int64_t time = 1'700'000'000'000'000'000;
  std::size_t at = 0;
  for (std::uint64_t i = 0; i < frames; ++i) {
    if (i % burst == 0) at = random() % all.size();
    Connection& c = all[at];
    if (c.step == 0) {
      const std::uint64_t dice = random() % 10;
      c.kind = dice < 7 ? 0 : dice < 9 ? 1 : 2;
      c.first_psn = c.psn;
    }
    Stage& step = script[c.kind][c.step];
    if (step.counts) ++c.msn;
    const unsigned from = step.response ? 1 : 0;
    Frame& frame = step.frame;
    const std::uint32_t psn = (c.first_psn + step.psn) & 0xffffff;
    const auto set = [&](const HeaderInfo& header, std::string_view name, std::uint64_t value) {
      if (HeaderValue* layer = frame.find(header)) layer->set(*header.find(name), value);
    };
    set(info<Ipv4>, "src", c.addresses[from]);
    set(info<Ipv4>, "dst", c.addresses[1 - from]);
    set(info<Udp>, "src_port", c.port);
    set(info<Bth>, "dest_qp", c.qps[1 - from]);
    set(info<Bth>, "psn", psn);
    set(info<Aeth>, "msn", c.msn);
    const std::vector<std::uint8_t> bytes = frame.encode();
    if (++c.step == script[c.kind].size()) {
      c.step = 0;
      c.psn = (psn + 1) & 0xffffff;
    }
    time += 200 + static_cast<std::int64_t>(random() % 600);
    record.bytes = bytes;
    record.wire_length = static_cast<std::uint32_t>(bytes.size());
    record.time = time;
    if (!writer->write(record)) return 3;
  }
  return writer->close() ? 0 : 3;
}
