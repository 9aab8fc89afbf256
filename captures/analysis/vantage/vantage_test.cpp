// Captures of a simulated network whose faults are recorded. The comparison must assign each fault to its hop. The
// simulation shares no code with the tested code. The last test uses real captures of one job at three hosts.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <map>
#include <queue>
#include <random>
#include <set>

#include "captures/analysis/findings.hpp"
#include "captures/analysis/vantage/run.hpp"
#include "dissectors/protocol/encode.hpp"
#include "dissectors/protocol/ethernet.hpp"
#include "dissectors/protocol/infiniband.hpp"
#include "dissectors/protocol/ip.hpp"
#include "dissectors/protocol/transport.hpp"
#include "source_directory.hpp"

namespace rdmawire::captures::vantage {
namespace {

using analysis::Json;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr std::int64_t second = 1'000'000'000;
constexpr std::int64_t origin = 1'732'163'000 * second;
constexpr std::uint32_t left_host = 0x0a000002, right_host = 0x0a000003;
constexpr std::uint8_t send_only = 0x04, acknowledge = 0x11, ud_send_only = 0x64;

struct PointSetting {
  std::int64_t offset = 0;  ///< offset of the clock from the true time, at `origin`
  double drift = 0;         ///< parts per million
  double miss = 0;          ///< probability that the capture loses a packet
};
/// A hop between two neighbors. The first hop is the link of the left host, and the last hop is the link of the right
/// host.
struct HopSetting {
  std::int64_t delay = 2'000;
  double loss = 0, mark = 0, double_up = 0, reorder = 0, corrupt = 0;
  double queue = 0;  ///< mean waiting time in nanoseconds
  bool rewrites_port = false, rewrites_dscp = false;
  std::uint8_t routers = 1;  ///< number by which the TTL decreases
};
struct Setting {
  std::vector<PointSetting> points{3};
  std::vector<HopSetting> hops{4};
  unsigned flows = 4;
  unsigned packets = 1000;       ///< number of requests per flow
  std::int64_t spacing = 3'000;  ///< time between requests in nanoseconds
  bool identifies = false;  ///< the IP identification increments, so retransmissions differ from the original packets
  bool unreliable = false;  ///< UD packets, which are not acknowledged
  bool same_psns = false;   ///< all flows start with PSN 0
  std::uint64_t seed = 1;
};

/// Faults by hop, as a comparison can detect them. The hop is between the last point that captured the packet and the
/// next point of its path.
struct Truth {
  using Hop =
      std::tuple<bool, std::size_t, std::size_t>;  ///< true: to the right. Then the upstream and the downstream point
  std::map<Hop, std::uint64_t> lost, lost_responses, missed_upstream, missed_downstream, marked, doubled, corrupted,
      seen;
  std::uint64_t before_first = 0, after_last = 0;
};

/// Two hosts with capture points between them. Requests go to the right, and acknowledgements to the left.
class Network {
 public:
  explicit Network(const Setting& setting) : s_(setting), random_(setting.seed) {
    captures_.resize(s_.points.size());
    last_.resize(2 * s_.hops.size());
  }

  void run() {
    flows_.resize(s_.flows);
    for (unsigned f = 0; f < s_.flows; ++f) {
      // Some PSNs wrap around.
      flows_[f].first_psn = s_.same_psns ? 0 : f % 2 ? 0xffff00 + 7 * f : static_cast<std::uint32_t>(random_());
      flows_[f].expected = flows_[f].next = flows_[f].acknowledged = 0;
      at(origin + 1000 * f, [this, f] { request(f); });
    }
    // Beacons make all captures start earlier and end later than the traffic.
    for (const bool to_right : {true, false}) {
      at(origin - second / 5, [this, to_right] { beacon(to_right); });
      at(origin + s_.packets * s_.spacing + 2 * second, [this, to_right] { beacon(to_right); });
    }
    while (!events_.empty()) {
      const auto event = events_.begin();
      now_ = event->first;
      const auto what = std::move(event->second);
      events_.erase(event);
      what();
    }
  }

  /// Writes the captures and returns their file names.
  std::vector<std::string> write(const std::filesystem::path& folder) {
    std::vector<std::string> files;
    for (std::size_t p = 0; p < captures_.size(); ++p) {
      auto& capture = captures_[p];
      std::stable_sort(capture.begin(), capture.end(), [](const Seen& a, const Seen& b) { return a.time < b.time; });
      files.push_back((folder / ("job_point" + std::to_string(p) + ".pcap")).string());
      std::ofstream file(files.back(), std::ios::binary);
      const auto put = [&file](std::uint32_t value) {
        file.write(reinterpret_cast<const char*>(&value), sizeof value);
      };
      put(0xa1b23c4d);
      put(0x00040002);
      put(0);
      put(0);
      put(262144);
      put(1);
      for (const Seen& seen : capture) {
        const std::int64_t time = stamp(p, seen.time);
        put(static_cast<std::uint32_t>(time / second));
        put(static_cast<std::uint32_t>(time % second));
        put(static_cast<std::uint32_t>(seen.bytes.size()));
        put(static_cast<std::uint32_t>(seen.bytes.size()));
        file.write(reinterpret_cast<const char*>(seen.bytes.data()), static_cast<std::streamsize>(seen.bytes.size()));
      }
    }
    return files;
  }

  [[nodiscard]] std::int64_t stamp(std::size_t point, std::int64_t time) const {
    return time + s_.points[point].offset +
           static_cast<std::int64_t>(static_cast<double>(time - origin) * s_.points[point].drift * 1e-6);
  }

  Truth truth;

 private:
  struct Seen {
    std::int64_t time = 0;
    std::vector<std::uint8_t> bytes;
  };
  struct Flow {
    std::uint32_t next = 0, acknowledged = 0;  ///< state of the requester
    std::uint32_t expected = 0;                ///< state of the responder
    std::uint32_t first_psn = 0;
    bool nak_sent = false;
    std::int64_t progress = origin;
  };
  struct Packet {
    bool to_right = true;
    unsigned flow = 0;
    std::uint32_t psn = 0;
    bool nak = false, is_beacon = false;
    std::vector<std::uint8_t> bytes;
    std::vector<std::size_t> captured;  ///< points that captured the packet, in path order
    bool counts = true;                 ///< false: the packet is a duplicate
  };

  void at(std::int64_t time, std::function<void()> what) { events_.emplace(time, std::move(what)); }
  bool happens(double share) { return share > 0 && std::uniform_real_distribution<double>()(random_) < share; }

  std::vector<std::uint8_t> bytes_of(const Packet& p) {
    const std::uint32_t from = p.to_right ? left_host : right_host, to = p.to_right ? right_host : left_host;
    const std::uint8_t opcode = p.is_beacon || s_.unreliable ? ud_send_only : p.to_right ? send_only : acknowledge;
    auto ip = Value<Ipv4>().set<"src">(from).set<"dst">(to).set<"tos">(26 << 2 | 2).set<"ttl">(64);
    if (s_.identifies) ip.set<"identification">(++identification_ & 0xffff);
    Frame frame = Value<Ethernet>() / ip / Value<Udp>().set<"src_port">(static_cast<std::uint16_t>(49152 + p.flow)) /
                  Value<Bth>()
                      .set<"opcode">(opcode)
                      .set<"dest_qp">(p.is_beacon ? 0xb0 : (p.to_right ? 0x100 : 0x200) + p.flow)
                      .set<"psn">(p.is_beacon ? p.psn : (p.psn + flows_[p.flow].first_psn) & 0xffffff)
                      .set<"ack_request">(p.to_right);
    if (opcode == acknowledge) {
      frame /= Value<Aeth>()
                   .set<"syndrome">((p.nak ? Syndrome::nak(nak_code::psn_sequence_error) : Syndrome::ack()).bits())
                   .set<"msn">(p.psn);
    } else {
      if (opcode == ud_send_only) frame /= Value<Deth>().set<"qkey">(1).set<"src_qp">(0x300 + p.flow);
      frame.payload.assign(64, static_cast<std::uint8_t>(p.psn));
    }
    return frame.encode();
  }

  void beacon(bool to_right) {
    Packet p;
    p.to_right = to_right;
    p.is_beacon = true;
    p.psn = static_cast<std::uint32_t>(now_ / 1000);
    launch(p);
  }

  void request(unsigned f) {
    Flow& flow = flows_[f];
    if (flow.acknowledged == s_.packets) return;
    if (flow.next < s_.packets && flow.next - flow.acknowledged < 64) {
      Packet p;
      p.flow = f;
      p.psn = flow.next++;
      launch(p);
      if (s_.unreliable) flow.acknowledged = flow.next;
    } else if (now_ - flow.progress > 4'000'000) {
      flow.next = flow.acknowledged;
      flow.progress = now_;
    }
    at(now_ + s_.spacing + static_cast<std::int64_t>(random_() % 500), [this, f] { request(f); });
  }

  void arrive(const Packet& p) {
    if (p.is_beacon || s_.unreliable) return;
    Flow& flow = flows_[p.flow];
    if (p.to_right) {
      Packet response;
      response.to_right = false;
      response.flow = p.flow;
      if (p.psn == flow.expected) {
        ++flow.expected;
        flow.nak_sent = false;
        response.psn = p.psn;
      } else if (p.psn < flow.expected) {
        response.psn = flow.expected - 1;
      } else {
        if (flow.nak_sent) return;
        flow.nak_sent = true;
        response.nak = true;
        response.psn = flow.expected;
      }
      launch(response);
    } else if (p.nak) {
      if (p.psn < flow.acknowledged) return;
      flow.acknowledged = p.psn;
      flow.next = p.psn;
      flow.progress = now_;
    } else if (p.psn + 1 > flow.acknowledged) {
      flow.acknowledged = p.psn + 1;
      flow.next = std::max(flow.next, flow.acknowledged);
      flow.progress = now_;
    }
  }

  void launch(Packet p) {
    p.bytes = bytes_of(p);
    travel(std::move(p), 0, now_);
  }

  /// Sends a packet over the `n`-th hop of its path.
  void travel(Packet p, std::size_t n, std::int64_t time) {
    const std::size_t hops = s_.hops.size();
    const std::size_t index = p.to_right ? n : hops - 1 - n;
    const HopSetting& h = s_.hops[index];
    const std::size_t points = s_.points.size();
    // The points at both ends of the hop (SIZE_MAX: a host).
    const std::size_t upstream = n == 0 ? SIZE_MAX : p.to_right ? n - 1 : points - n;
    const std::size_t downstream = n + 1 == hops ? SIZE_MAX : p.to_right ? n : points - 1 - n;
    const bool plain = !p.is_beacon && p.counts;
    if (plain && happens(h.loss)) {
      if (p.captured.empty()) {
        ++truth.before_first;
        return;
      }
      const std::size_t last = p.captured.back();
      const std::size_t next = p.to_right ? last + 1 : last - 1;
      if (next >= points) {
        truth.after_last += p.to_right;
        return;
      }
      auto& table = p.to_right ? truth.lost : truth.lost_responses;
      ++table[{p.to_right, last, next}];
      return;
    }
    std::int64_t arrival = time + h.delay;
    if (h.queue > 0) arrival += static_cast<std::int64_t>(std::exponential_distribution<double>(1 / h.queue)(random_));
    std::int64_t& last = last_[2 * index + p.to_right];
    if (plain && happens(h.reorder))
      arrival += 30'000;
    else
      last = arrival = std::max(arrival, last + 10);
    p.bytes[22] = static_cast<std::uint8_t>(p.bytes[22] - h.routers);
    if (h.rewrites_port) p.bytes[34] ^= 0x40;
    if (h.rewrites_dscp) p.bytes[15] = static_cast<std::uint8_t>(p.bytes[15] & 3);
    const bool mark = plain && (p.bytes[15] & 3) == 2 && happens(h.mark);
    if (mark) p.bytes[15] |= 3;
    const bool corrupt = plain && p.to_right && happens(h.corrupt);
    if (corrupt) p.bytes[60] ^= 0x10;
    const bool twice = plain && happens(h.double_up);
    const std::size_t had = p.captured.size();
    if (downstream != SIZE_MAX && (p.is_beacon || !happens(s_.points[downstream].miss))) {
      captures_[downstream].push_back({arrival, p.bytes});
      for (std::size_t point = had ? p.captured.back() : upstream; point != SIZE_MAX && point != downstream;
           point = p.to_right ? point + 1 : point - 1)
        if (p.counts && (p.captured.empty() || point != p.captured.back()) && !p.is_beacon)
          ++truth.missed_upstream[{p.to_right, point, downstream}];
      // If no upstream point captured the packet, all of them missed it.
      if (plain && had == 0 && upstream != SIZE_MAX)
        for (std::size_t point = p.to_right ? 0 : points - 1; point != upstream;
             point = p.to_right ? point + 1 : point - 1)
          ++truth.missed_upstream[{p.to_right, point, downstream}];
      if (plain && had) ++truth.seen[{p.to_right, p.captured.back(), downstream}];
      p.captured.push_back(downstream);
    }
    if (upstream != SIZE_MAX && downstream != SIZE_MAX && p.captured.size() >= 2 && p.captured.back() == downstream &&
        p.captured[p.captured.size() - 2] == upstream) {
      if (mark) ++truth.marked[{p.to_right, upstream, downstream}];
      if (corrupt) ++truth.corrupted[{p.to_right, upstream, downstream}];
      if (twice) ++truth.doubled[{p.to_right, upstream, downstream}];
    }
    if (twice) {
      Packet copy = p;
      copy.counts = false;
      if (downstream != SIZE_MAX) captures_[downstream].push_back({arrival + 300, p.bytes});
      if (n + 1 < hops) travel(std::move(copy), n + 1, arrival + 300);
    }
    if (n + 1 == hops) {
      if (plain && !p.captured.empty()) {
        const std::size_t end = p.to_right ? points - 1 : 0;
        if (p.captured.back() != end && p.to_right)
          ++truth.missed_downstream[{p.to_right, p.captured.back(), p.captured.back() + 1}];
      }
      if (!p.counts) return;
      at(arrival, [this, p] { arrive(p); });
      return;
    }
    travel(std::move(p), n + 1, arrival);
  }

  Setting s_;
  std::mt19937_64 random_;
  std::multimap<std::int64_t, std::function<void()>> events_;
  std::int64_t now_ = 0;
  std::vector<Flow> flows_;
  std::vector<std::vector<Seen>> captures_;
  std::vector<std::int64_t> last_;
  std::uint32_t identification_ = 0;
};

class Vantage : public ::testing::Test {
 protected:
  void SetUp() override {
    folder_ =
        std::filesystem::temp_directory_path() / ("rdmawire-vantage-" + std::to_string(::getpid()) + "-" +
                                                  ::testing::UnitTest::GetInstance()->current_test_info()->name());
    std::filesystem::create_directories(folder_);
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  Comparison compare(Network& network, RunOptions options = {}) {
    network.run();
    options.files = network.write(folder_);
    return vantage::run(options);
  }

  std::filesystem::path folder_;
};

std::uint64_t count(const Comparison& c, const Truth::Hop& at, HopOutcome outcome) {
  const auto& [to_right, upstream, downstream] = at;
  const auto from = PortAddress::of_ipv4(to_right ? left_host : right_host);
  for (const Hop& h : c.ledger->hops())
    if (h.direction.from == from && h.upstream == upstream && h.downstream == downstream) return h.of(outcome).packets;
  return 0;
}

using Table = std::map<Truth::Hop, std::uint64_t>;
/// Returns the result of the comparison for one outcome, in the form of the tables in Truth.
Table found(const Comparison& c, HopOutcome outcome) {
  Table table;
  for (const Hop& h : c.ledger->hops())
    if (const std::uint64_t packets = h.of(outcome).packets)
      table[{h.direction.from == PortAddress::of_ipv4(left_host), h.upstream, h.downstream}] = packets;
  return table;
}
Table only(const Table& table, bool to_right) {
  Table part;
  for (const auto& [hop, packets] : table)
    if (std::get<0>(hop) == to_right) part[hop] = packets;
  return part;
}

void expect_true_clocks(const Comparison& c, const Network& network) {
  for (const PairOfPoints& pair : c.layout->pairs()) {
    ASSERT_TRUE(pair.clock.low && pair.clock.high) << pair.first << " " << pair.second;
    // True time at which the first clock shows `at`.
    std::int64_t time = pair.clock.at;
    for (int i = 0; i < 5; ++i) time -= network.stamp(pair.first, time) - pair.clock.at;
    const std::int64_t truth = network.stamp(pair.second, time) - network.stamp(pair.first, time);
    EXPECT_LE(*pair.clock.low, truth + 2) << pair.first << " " << pair.second;
    EXPECT_GE(*pair.clock.high, truth - 2) << pair.first << " " << pair.second;
    EXPECT_EQ(pair.clock.unsteady, 0);
  }
}

void expect_order(const Comparison& c) {
  for (const CapturePath& path : c.layout->paths()) {
    std::vector<std::size_t> order = path.points;
    if (path.direction.from != PortAddress::of_ipv4(left_host)) std::reverse(order.begin(), order.end());
    EXPECT_TRUE(std::is_sorted(order.begin(), order.end()));
    EXPECT_EQ(order.size(), c.surveys.size());
  }
}

Setting with_bad_clocks(Setting s) {
  s.points[0].offset = 0;
  s.points[1].offset = -7 * second - 123'456'789;
  s.points[1].drift = 50;
  s.points[2].offset = 3600 * second + 42;
  s.points[2].drift = -31;
  return s;
}

TEST_F(Vantage, FaultlessNetworkHasNoFinding) {
  Network network(with_bad_clocks({}));
  const Comparison c = compare(network);
  expect_true_clocks(c, network);
  expect_order(c);
  for (std::size_t i = 0; i < hop_outcomes; ++i) EXPECT_EQ(found(c, static_cast<HopOutcome>(i)), Table()) << i;
  EXPECT_EQ(network.truth.seen.size(), 4U);
  for (const auto& [hop, packets] : network.truth.seen) {
    const auto& [to_right, upstream, downstream] = hop;
    const auto from = PortAddress::of_ipv4(to_right ? left_host : right_host);
    for (const Hop& h : c.ledger->hops())
      if (h.direction.from == from && h.upstream == upstream && h.downstream == downstream) {
        EXPECT_EQ(h.seen, packets + 2);  // 2 beacons
      }
  }
  const Json report = report_of(c);
  EXPECT_TRUE(report.at("capture_points").at("findings").empty()) << report.at("capture_points").at("findings").dump(1);
  EXPECT_THAT(text_of(report), HasSubstr("No problems found"));
}

TEST_F(Vantage, LossIsAssignedToItsHop) {
  for (const bool identifies : {false, true}) {
    for (std::uint64_t seed = 1; seed <= 10; ++seed) {
      Setting s = with_bad_clocks({});
      s.seed = seed;
      s.identifies = identifies;
      s.same_psns = seed % 5 == 0;
      s.hops[1].loss = 0.01;
      s.hops[2].loss = 0.003;
      for (HopSetting& h : s.hops) h.queue = 3'000;
      Network network(s);
      const Comparison c = compare(network);
      expect_true_clocks(c, network);
      expect_order(c);
      ASSERT_FALSE(network.truth.lost.empty());
      EXPECT_EQ(only(found(c, HopOutcome::lost), true), network.truth.lost) << "seed " << seed << " " << identifies;
      EXPECT_EQ(only(found(c, HopOutcome::missing), true), Table()) << "seed " << seed << " " << identifies;
      EXPECT_TRUE(c.ledger->edges().empty());
      for (const HopOutcome outcome :
           {HopOutcome::missed_upstream, HopOutcome::missed_downstream, HopOutcome::reordered, HopOutcome::duplicated,
            HopOutcome::marked, HopOutcome::icrc_corrupted, HopOutcome::captured_twice, HopOutcome::elsewhere,
            HopOutcome::damaged})
        EXPECT_EQ(found(c, outcome), Table()) << "seed " << seed << " " << to_string(outcome);
      // A lost acknowledgement leaves no evidence after the point that last saw it.
      Table responses = only(found(c, HopOutcome::lost), false);
      for (const auto& [hop, packets] : found(c, HopOutcome::missing)) responses[hop] += packets;
      EXPECT_EQ(responses, network.truth.lost_responses);
    }
  }
}

TEST_F(Vantage, NaksRevealLossOutsideOfTheCapturePoints) {
  for (const bool downstream : {false, true}) {
    Setting s = with_bad_clocks({});
    s.flows = 2;
    s.hops[downstream ? 3 : 0].loss = 0.002;
    s.packets = 5000;
    Network network(s);
    const Comparison c = compare(network);
    std::uint64_t reported = 0;
    for (const Edge& edge : c.ledger->edges()) {
      EXPECT_EQ(edge.downstream, downstream);
      reported += edge.tally.packets;
    }
    const std::uint64_t truth = downstream ? network.truth.after_last : network.truth.before_first;
    // If a packet is lost while the receiver waits for another packet, no NAK reports it.
    EXPECT_LE(reported, truth);
    EXPECT_GE(reported * 10, truth * 7);
    EXPECT_EQ(only(found(c, HopOutcome::lost), true), Table());
  }
}

TEST_F(Vantage, CaptureLossIsNotNetworkLoss) {
  for (std::uint64_t seed = 1; seed <= 5; ++seed) {
    Setting s = with_bad_clocks({});
    s.seed = seed;
    s.points[1].miss = 0.02;
    Network network(s);
    const Comparison c = compare(network);
    expect_true_clocks(c, network);
    EXPECT_EQ(found(c, HopOutcome::lost), Table());
    EXPECT_EQ(found(c, HopOutcome::missing), Table());
    EXPECT_EQ(found(c, HopOutcome::missed_upstream), network.truth.missed_upstream);
  }
}

TEST_F(Vantage, AcknowledgedPacketMissingFromLastCaptureCountsAsDelivered) {
  Setting s = with_bad_clocks({});
  s.points[2].miss = 0.02;
  Network network(s);
  const Comparison c = compare(network);
  EXPECT_EQ(only(found(c, HopOutcome::missed_downstream), true), network.truth.missed_downstream);
  EXPECT_EQ(found(c, HopOutcome::lost), Table());
  EXPECT_EQ(only(found(c, HopOutcome::missing), true), Table());
}

TEST_F(Vantage, NetworkLossAndCaptureLossAreDistinguished) {
  // Retransmissions have identical bytes, and the captures lose packets.
  std::uint64_t lost = 0, found_lost = 0, off = 0;
  for (std::uint64_t seed = 1; seed <= 10; ++seed) {
    Setting s = with_bad_clocks({});
    s.seed = seed;
    s.hops[1].loss = 0.005;
    s.hops[2].loss = 0.005;
    s.points[1].miss = 0.01;
    s.points[2].miss = 0.01;
    Network network(s);
    const Comparison c = compare(network);
    expect_true_clocks(c, network);
    const Table is = only(found(c, HopOutcome::lost), true);
    for (const auto& [hop, packets] : network.truth.lost) {
      lost += packets;
      const auto it = is.find(hop);
      const std::uint64_t reported = it == is.end() ? 0 : it->second;
      found_lost += std::min(reported, packets);
      off += reported > packets ? reported - packets : packets - reported;
    }
  }
  // Go-back-N also retransmits packets that were delivered. If a capture lost the delivered packet, this looks like
  // network loss.
  EXPECT_GT(lost, 200U);
  EXPECT_LE(static_cast<double>(off), 0.1 * static_cast<double>(lost));
  EXPECT_GE(static_cast<double>(found_lost), 0.98 * static_cast<double>(lost));
}

TEST_F(Vantage, EcnMarksAreCountedOnTheirHop) {
  Setting s = with_bad_clocks({});
  s.hops[0].mark = 0.05;
  s.hops[2].mark = 0.1;
  Network network(s);
  const Comparison c = compare(network);
  EXPECT_EQ(found(c, HopOutcome::marked), network.truth.marked);
  EXPECT_EQ(found(c, HopOutcome::dscp_rewritten), Table());
  EXPECT_THAT(text_of(report_of(c)), HasSubstr("ECN-marked on this hop (CE)"));
}

TEST_F(Vantage, RewritingAndDamageAreReported) {
  Setting s = with_bad_clocks({});
  s.hops[1].rewrites_dscp = true;
  s.hops[2].corrupt = 0.01;
  Network network(s);
  const Comparison c = compare(network);
  EXPECT_EQ(found(c, HopOutcome::icrc_corrupted), network.truth.corrupted);
  const Table dscp = found(c, HopOutcome::dscp_rewritten);
  ASSERT_EQ(dscp.size(), 2U);
  EXPECT_TRUE(dscp.contains({true, 0, 1}) && dscp.contains({false, 1, 0}));
}

TEST_F(Vantage, RewrittenSourcePortCorruptsTheIcrc) {
  Setting s = with_bad_clocks({});
  s.hops[2].rewrites_port = true;
  Network network(s);
  const Comparison c = compare(network);
  for (const Truth::Hop& hop : {Truth::Hop{true, 1, 2}, Truth::Hop{false, 2, 1}}) {
    EXPECT_GT(count(c, hop, HopOutcome::port_rewritten), 1000U);
    EXPECT_EQ(count(c, hop, HopOutcome::port_rewritten), count(c, hop, HopOutcome::icrc_corrupted));
  }
  EXPECT_EQ(found(c, HopOutcome::port_rewritten).size(), 2U);
}

TEST_F(Vantage, DuplicatedAndReorderedPacketsAreCounted) {
  Setting s = with_bad_clocks({});
  s.hops[1].double_up = 0.01;
  Network network(s);
  const Comparison c = compare(network);
  EXPECT_EQ(found(c, HopOutcome::duplicated), network.truth.doubled);
  EXPECT_EQ(found(c, HopOutcome::lost), Table());

  Setting t = with_bad_clocks({});
  t.hops[2].reorder = 0.01;
  t.unreliable = true;
  Network spraying(t);
  const Comparison d = compare(spraying);
  const Table reordered = found(d, HopOutcome::reordered);
  EXPECT_EQ(reordered.size(), 1U);
  EXPECT_GT(count(d, {true, 1, 2}, HopOutcome::reordered), 10U);
}

TEST_F(Vantage, QueueingIsAssignedToItsHop) {
  Setting s = with_bad_clocks({});
  s.hops[2].queue = 40'000;
  s.spacing = 1'000'000;
  s.flows = 1;
  Network network(s);
  const Comparison c = compare(network);
  for (const Hop& h : c.ledger->hops()) {
    const bool slow = std::min(h.upstream, h.downstream) == 1;
    const auto p50 = static_cast<std::int64_t>(h.delays.quantile(500)) + h.base - h.shortest;
    if (slow) {
      EXPECT_NEAR(static_cast<double>(p50), 27'700, 6'000);
    } else {
      EXPECT_LT(p50, 2'000);
    }
  }
  const Json findings = report_of(c).at("capture_points").at("findings");
  ASSERT_FALSE(findings.empty());
  EXPECT_EQ(findings[0].at("kind"), "delayed");
}

TEST_F(Vantage, UnacknowledgedPacketsAreMissing) {
  Setting s = with_bad_clocks({});
  s.unreliable = true;
  s.hops[1].loss = 0.02;
  Network network(s);
  const Comparison c = compare(network);
  EXPECT_EQ(found(c, HopOutcome::lost), Table());
  EXPECT_EQ(found(c, HopOutcome::missing), network.truth.lost);
}

TEST_F(Vantage, TimesDetermineTheOrderWithoutTtl) {
  Setting s = with_bad_clocks({});
  for (HopSetting& h : s.hops) {
    h.routers = 0;
    h.queue = 10'000;
  }
  s.hops[1].loss = 0.01;
  Network network(s);
  const Comparison c = compare(network);
  expect_order(c);
  expect_true_clocks(c, network);
  for (const CapturePath& path : c.layout->paths())
    for (const OrderBy by : path.order) EXPECT_EQ(by, OrderBy::times);
  EXPECT_EQ(only(found(c, HopOutcome::lost), true), network.truth.lost);
}

TEST_F(Vantage, OrderCanBeSpecified) {
  Setting s;
  for (HopSetting& h : s.hops) h.routers = 0;
  s.unreliable = true;  // only one direction has packets, so there is no evidence for the order
  Network network(s);
  network.run();
  RunOptions options;
  options.files = network.write(folder_);
  options.layout.order = {2, 1, 0};
  const Comparison c = vantage::run(options);
  for (const CapturePath& path : c.layout->paths()) {
    for (const OrderBy by : path.order) EXPECT_EQ(by, OrderBy::given);
    EXPECT_TRUE(path.points == std::vector<std::size_t>({0, 1, 2}) ||
                path.points == std::vector<std::size_t>({2, 1, 0}));
  }
}

TEST_F(Vantage, ResultIsIndependentOfFileOrder) {
  Setting s = with_bad_clocks({});
  s.hops[1].loss = 0.01;
  s.hops[2].mark = 0.01;
  s.points[1].miss = 0.01;
  Network network(s);
  network.run();
  RunOptions options;
  options.files = network.write(folder_);
  const Comparison one = vantage::run(options);
  const std::vector<std::size_t> turned = {2, 0, 1};  // new positions of the files
  std::vector<std::string> files(3);
  for (std::size_t i = 0; i < 3; ++i) files[turned[i]] = options.files[i];
  options.files = files;
  const Comparison other = vantage::run(options);
  for (std::size_t i = 0; i < hop_outcomes; ++i) {
    Table renamed;
    for (const auto& [hop, packets] : found(one, static_cast<HopOutcome>(i))) {
      const auto& [to_right, upstream, downstream] = hop;
      renamed[{to_right, turned[upstream], turned[downstream]}] = packets;
    }
    EXPECT_EQ(found(other, static_cast<HopOutcome>(i)), renamed) << to_string(static_cast<HopOutcome>(i));
  }
}

TEST_F(Vantage, UnrelatedFileIsReportedAndExcluded) {
  Setting s = with_bad_clocks({});
  s.hops[1].loss = 0.01;
  Network network(s);
  network.run();
  RunOptions options;
  options.files = network.write(folder_);
  options.files.insert(options.files.begin(), RDMAWIRE_SOURCE_DIR "/captures/samples/rping.pcap");
  const Comparison c = vantage::run(options);
  EXPECT_EQ(c.layout->connected(), std::vector<bool>({false, true, true, true}));
  const Json report = report_of(c);
  EXPECT_EQ(report.at("capture_points").at("findings")[0].at("kind"), "unrelated");
  EXPECT_THAT(text_of(report), HasSubstr("shares no packet with the other captures"));
  Table moved;
  for (const auto& [hop, packets] : network.truth.lost) {
    const auto& [to_right, upstream, downstream] = hop;
    moved[{to_right, upstream + 1, downstream + 1}] = packets;
  }
  EXPECT_EQ(only(found(c, HopOutcome::lost), true), moved);
}

TEST_F(Vantage, FewSamplesAndLittleMemoryHaveTheSameResult) {
  Setting s = with_bad_clocks({});
  s.hops[1].loss = 0.01;
  s.packets = 3000;
  Network network(s);
  RunOptions options;
  options.samples = 500;
  const Comparison c = compare(network, options);
  expect_true_clocks(c, network);
  expect_order(c);
  EXPECT_EQ(only(found(c, HopOutcome::lost), true), network.truth.lost);
  EXPECT_EQ(c.evaluated_early, 0U);

  // If memory is minimal, the comparison must report that its result is incomplete.
  options.files = {(folder_ / "job_point0.pcap").string(), (folder_ / "job_point1.pcap").string(),
                   (folder_ / "job_point2.pcap").string()};
  options.matcher.observations = 2;
  const Comparison tight = vantage::run(options);
  EXPECT_GT(tight.evaluated_early, 0U);
  EXPECT_FALSE(report_of(tight).at("capture_points").at("exact").get<bool>());
}

TEST_F(Vantage, DeclaringClocksSynchronizedIsChecked) {
  Setting s;
  s.points[1].offset = 300'000;
  Network network(s);
  RunOptions options;
  options.layout.synchronized = true;
  const Comparison c = compare(network, options);
  bool reported = false;
  const Json report = report_of(c);
  for (const Json& f : report.at("capture_points").at("findings")) reported |= f.at("kind") == "not_synchronized";
  EXPECT_TRUE(reported);

  Network agreeing{Setting{}};
  const Comparison d = compare(agreeing, options);
  const Json other = report_of(d);
  const Json& hops = other.at("capture_points").at("hops");
  for (const Json& hop : hops) {
    EXPECT_EQ(hop.at("delay").at("shortest_low_ns"), 2'000);
    EXPECT_EQ(hop.at("delay").at("shortest_high_ns"), 2'000);
  }
}

// One job, captured at all three hosts. CC BY-SA 4.0, linlinw5/rdma_ib_tutorial.
TEST(VantageOfRealCaptures, RingOfThreeHosts) {
  const char* shared = std::getenv("RDMAWIRE_SHARED");
  if (!shared) GTEST_SKIP() << "set RDMAWIRE_SHARED to the folder that holds captures/public";
  for (const std::string job : {"nccl", "ring2", "tree2"}) {
    RunOptions options;
    for (const char* node : {"0", "1", "2"})
      options.files.push_back(std::string(shared) + "/captures/public/linlinw5__rdma_ib_tutorial__" + job + "_node" +
                              node + ".pcap");
    const Comparison c = vantage::run(options);
    ASSERT_TRUE(c.errors.empty());
    const char* hosts[] = {"172.30.0.25", "172.30.0.11", "172.30.0.12"};
    for (std::size_t i = 0; i < 3; ++i) {
      ASSERT_TRUE(c.layout->host()[i]);
      EXPECT_EQ(analysis::to_text(*c.layout->host()[i]), hosts[i]);
      // Each RDMA packet was captured at its sender and at its receiver.
      EXPECT_EQ(c.ledger->points()[i].packets, c.surveys[i].rdma);
      EXPECT_EQ(c.ledger->points()[i].shared, c.surveys[i].rdma);
    }
    for (const CapturePath& path : c.layout->paths()) {
      if (path.points.size() < 2) continue;
      EXPECT_EQ(c.layout->host()[path.points.front()], path.direction.from);
      EXPECT_EQ(c.layout->host()[path.points.back()], path.direction.to);
    }
    // The three offsets are estimated independently, and must be consistent.
    const auto at = [&](std::size_t a, std::size_t b) { return c.layout->pair(a, b)->clock; };
    EXPECT_LE(*at(0, 1).low + *at(1, 2).low, *at(0, 2).high);
    EXPECT_GE(*at(0, 1).high + *at(1, 2).high, *at(0, 2).low);
    for (const Hop& h : c.ledger->hops()) {
      if (h.plain_tcp) continue;
      for (const HopOutcome outcome : {HopOutcome::lost, HopOutcome::missing, HopOutcome::missed_upstream,
                                       HopOutcome::missed_downstream, HopOutcome::reordered})
        EXPECT_EQ(h.of(outcome).packets, 0U);
    }
  }
}

}  // namespace
}  // namespace rdmawire::captures::vantage
