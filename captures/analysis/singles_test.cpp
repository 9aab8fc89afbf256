// Connections that the tracker reduces to their single packet must be reported like others, and need little memory.

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <string>
#include <vector>

#include "captures/analysis/report.hpp"
#include "dissectors/tracking/captures_for_test.hpp"
#include "dissectors/tracking/frames_for_test.hpp"
#include "dissectors/tracking/tracker.hpp"
#include "dissectors/tracking/transport_packet.hpp"

namespace rdmawire::captures::analysis {
namespace {

using namespace tracking::testing;
namespace rc = tracking::testing::rc;  // `rc` is also a namespace of opcodes
using tracking::Tracker;
using tracking::TrackerOptions;
using tracking::TransportPacket;

/// Records everything that is reported as lines.
struct Lines final : tracking::Sink {
  void message(const Connection&, const Message& m) override { lines.push_back("message " + message_json(m).dump()); }
  void event(const Connection* c, const Event& e) override {
    lines.push_back("event " + std::to_string(c ? c->id : 0) + event_json(e).dump());
  }
  void connection(const Connection& c, tracking::CloseReason why) override {
    lines.push_back("connection " + std::to_string(static_cast<int>(why)) + connection_json(c).dump() +
                    flow_json(c, Side::a).dump() + flow_json(c, Side::b).dump() + std::to_string(c.contradicting));
  }
  void merged(const Connection& c, std::uint64_t id) override {
    lines.push_back("merged " + std::to_string(c.id) + " " + std::to_string(id));
  }
  void packet(const Connection& c, std::uint64_t frame, const tracking::PacketNote& note) override {
    lines.push_back("packet " + std::to_string(c.id) + " " + std::to_string(frame) + " " +
                    std::to_string(note.relative_psn) + " " + std::to_string(note.related_frame));
  }
  void transport(const Connection& c, Side from, const TransportPacket& t,
                 const tracking::NegotiatedParameters*) override {
    lines.push_back("transport " + std::to_string(c.id) + " " + std::to_string(static_cast<int>(from)) + " " +
                    std::to_string(t.frame));
  }
  /// The order of connections differs at the end of the capture.
  [[nodiscard]] std::vector<std::string> sorted() const {
    auto result = lines;
    std::sort(result.begin(), result.end());
    return result;
  }
  std::vector<std::string> lines;
};

struct Tracked {
  explicit Tracked(std::uint32_t recent, bool source_port = true) : tracker(lines, options(recent, source_port)) {}
  static TrackerOptions options(std::uint32_t recent, bool source_port) {
    TrackerOptions options;
    options.recent_connections = recent;
    options.use_source_port = source_port;
    options.packets = options.transport = true;
    return options;
  }
  Lines lines;
  Tracker tracker;
  std::size_t most_singles = 0;
};

/// Passes the same packets to two trackers. One of them reduces a connection as soon as another one starts.
struct Pair {
  explicit Pair(bool source_port = true) : whole(0, source_port), reduced(1, source_port) {}
  void add(const tracking::Packet& packet) {
    whole.tracker.add(packet);
    reduced.tracker.add(packet);
    most = std::max(most, reduced.tracker.singles());
  }
  void send(const RdmaFrame& frame, std::int64_t after = 1000, std::size_t cut = 0) {
    std::uint8_t bytes[RdmaFrame::most];
    const std::size_t size = frame.write(bytes);
    ++sent.number;
    sent.time_ns += after;
    sent.link = LinkType::raw_ip;
    dissector.dissect(sent, Bytes(bytes, size - cut), static_cast<std::uint32_t>(size));
    add(sent);
  }
  void expect_equal() {
    EXPECT_EQ(whole.tracker.singles(), 0U);
    EXPECT_EQ(whole.tracker.connections(), reduced.tracker.connections());
    whole.tracker.finish();
    reduced.tracker.finish();
    const auto x = whole.lines.sorted(), y = reduced.lines.sorted();
    std::vector<std::string> only_whole, only_reduced;
    std::set_difference(x.begin(), x.end(), y.begin(), y.end(), std::back_inserter(only_whole));
    std::set_difference(y.begin(), y.end(), x.begin(), x.end(), std::back_inserter(only_reduced));
    ASSERT_TRUE(only_whole.empty()) << only_whole.size() << " lines, " << only_whole[0];
    ASSERT_TRUE(only_reduced.empty()) << only_reduced.size() << " lines, " << only_reduced[0];
  }
  Tracked whole, reduced;
  std::size_t most = 0;
  tracking::Packet sent;
  tracking::Dissector dissector{{{}, false}};
};

TEST(Singles, SamplesAreReportedAlike) {
  std::size_t most = 0;
  for (const char* name :
       {"linlinw5-cm.pcap", "linlinw5-rc-write.pcap", "linlinw5-uc-pingpong.pcap", "nvme-over-rdma.pcap.zst",
        "rc-atomic.pcap", "rc-pingpong-loss.pcap.gz", "rc-pingpong.pcap.gz", "rc-read-loss.pcap.zst", "rc-read.pcap.gz",
        "rc-send.pcap.gz", "rc-write-ipv6.pcap", "rping.pcap", "srq-pingpong.pcap.gz", "ucmatose.pcap",
        "ud-pingpong.pcap"}) {
    SCOPED_TRACE(name);
    Pair pair;
    dissect_capture(sample(name), [&](const tracking::Packet& packet) { pair.add(packet); });
    most = std::max(most, pair.most);
    pair.expect_equal();
  }
  EXPECT_EQ(most, 0U) << "a sample with such connections: compare more with it";
}

// There are few QPs and PSNs, so that requests, responses, reused QPs and ambiguous candidates occur together.
TEST(Singles, RandomTrafficIsReportedAlike) {
  const char* wish = std::getenv("RDMAWIRE_FULL");
  const std::uint32_t seeds = wish && std::string_view(wish) == "1" ? 2000 : 60;
  std::size_t most = 0;
  for (std::uint32_t seed = 0; seed < seeds; ++seed) {
    SCOPED_TRACE(seed);
    std::mt19937 random(seed);
    const auto below = [&](std::uint32_t bound) { return static_cast<std::uint32_t>(random() % bound); };
    Pair pair(seed % 3 != 0);
    const std::uint32_t hosts = 1 + below(4), qps = 2 + below(60), psns = 1 + below(40);
    for (std::uint32_t i = 0; i < 400; ++i) {
      RdmaFrame frame;
      constexpr std::uint8_t opcodes[] = {rc::send,
                                          rc::write,
                                          rc::read,
                                          rc::acknowledge,
                                          rc::acknowledge,
                                          rc::response_only,
                                          rc::send_first,
                                          rc::fetch_add,
                                          rc::atomic_acknowledge,
                                          ud + rc::send,
                                          uc + rc::send,
                                          xrc + rc::send,
                                          uc + rc::send_first,
                                          rc::write_first,
                                          rc::send,
                                          congestion_notification};
      frame.opcode = opcodes[below(16)];
      frame.from = host_a + below(hosts);
      frame.to = host_a + below(hosts + 1);
      frame.qp = 16 + below(qps);
      frame.psn = below(psns) * (below(8) == 0 ? 7001 : 1);
      frame.payload = frame.opcode == rc::acknowledge || frame.opcode == rc::read ? 0 : below(3) * 128;
      frame.source_qp = 16 + below(qps);
      frame.qkey = below(10) == 0 ? 2 : 1;
      frame.length = 256 * below(3);
      frame.source_port = static_cast<std::uint16_t>(0xc000 + below(6) * (below(2) ? 1 : frame.qp));
      frame.pkey = below(20) == 0 ? 0x8001 : 0xffff;
      frame.traffic_class = static_cast<std::uint8_t>(below(4));
      frame.syndrome = below(8) == 0 ? nak(0) : ack;
      frame.msn = below(20);
      pair.send(frame, below(30) == 0 ? 600'000'000 : 1000 + below(2) * 50'000, below(25) == 0 ? 4 : 0);
    }
    most = std::max(most, pair.most);
    pair.expect_equal();
    if (HasFatalFailure()) return;
  }
  EXPECT_GT(most, 20U);
}

TEST(Singles, ManyOneWayConnectionsCostAtMost400BytesEach) {
  const char* wish = std::getenv("RDMAWIRE_FULL");
  const std::uint32_t count = wish && std::string_view(wish) == "1" ? 1'000'000 : 100'000;
  for (const bool many_hosts : {false, true})
    for (const std::uint8_t opcode : {std::uint8_t{rc::send}, std::uint8_t{uc + rc::send}, std::uint8_t{ud + rc::send},
                                      std::uint8_t{rc::compare_swap}}) {
      struct Ignored final : tracking::Sink {
      } ignored;
      Tracker tracker(ignored);
      tracking::Dissector dissector{{{}, false}};
      tracking::Packet packet;
      packet.link = LinkType::raw_ip;
      std::uint8_t bytes[RdmaFrame::most];
      for (std::uint32_t i = 0; i < count; ++i) {
        RdmaFrame frame{.opcode = opcode, .qp = 16 + i, .psn = i * 7919 & 0xffffff, .source_qp = 1 + i % 100};
        if (many_hosts) frame.from += i;
        const std::size_t size = frame.write(bytes);
        ++packet.number;
        packet.time_ns += 1000;
        dissector.dissect(packet, Bytes(bytes, size), static_cast<std::uint32_t>(size));
        tracker.add(packet);
      }
      EXPECT_EQ(tracker.connections(), count);
      EXPECT_GE(tracker.singles() + 1024, count) << "opcode " << int{opcode};
      EXPECT_EQ(tracker.evicted(), 0U);
      // The first 1024 connections are not reduced.
      const std::size_t whole = 1024 * 6000;
      const double each = static_cast<double>(tracker.memory() - std::min(tracker.memory(), whole)) / count;
      std::printf("opcode %02x, %s: %.0f bytes per connection\n", opcode, many_hosts ? "many hosts" : "two hosts",
                  each);
      EXPECT_LE(each, 400);
    }
}

}  // namespace
}  // namespace rdmawire::captures::analysis
