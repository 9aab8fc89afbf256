// Tests MRC in the analysis: the report of the sample, results with several threads, and the limit on memory.

#include "dissectors/protocol/mrc.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <random>
#include <sstream>

#include "captures/analysis/archive.hpp"
#include "captures/analysis/csv.hpp"
#include "captures/analysis/damaged_for_test.hpp"
#include "captures/analysis/report.hpp"
#include "captures/analysis/run.hpp"
#include "captures/analysis/text_page.hpp"
#include "dissectors/protocol/encode.hpp"
#include "dissectors/protocol/ip.hpp"
#include "dissectors/protocol/transport.hpp"
#include "dissectors/tracking/transport_packet.hpp"

namespace rdmawire::captures::analysis {
namespace {

using testing::difference_of;
using ::testing::HasSubstr;
using ::testing::Not;
using testing::Scratch;

std::string sample() { return RDMAWIRE_SOURCE_DIR "/captures/samples/mrc.pcap"; }

RunOptions options_for(const std::string& file, unsigned threads = 1) {
  RunOptions options;
  options.files = {file};
  options.threads = threads;
  options.parallel_from = 0;
  return options;
}

Json report_for(const RunOptions& options) {
  const RunResult result = run(options);
  return report_of(result.analysis, result.input);
}

/// Numbers of packets by source port and by kind, from decoded headers only.
struct Counted {
  std::map<std::uint16_t, std::uint64_t> writes, trimmed, marked;
  std::uint64_t all = 0, trims = 0, flagged = 0, sacks = 0, nacks = 0, probes = 0, requests = 0, responses = 0;
};
Counted count(const std::string& file) {
  Counted counted;
  auto reader = Reader::open(file);
  EXPECT_TRUE(reader);
  Record record;
  while (reader->next(record) == Next::record) {
    const HeaderStack stack = decode(record.bytes, record.link);
    const auto bth = stack.get<MrcBth>();
    if (!bth) continue;
    const std::uint16_t port = stack.get<Udp>()->get<"src_port">();
    switch (mrc_opcode(bth->get<"opcode">()).operation) {
      case MrcOperation::rdma_write:
        ++counted.all;
        ++counted.writes[port];
        counted.trims += stack.cut;
        counted.trimmed[port] += stack.cut;
        counted.marked[port] += stack.get<Ipv6>()->get<"traffic_class.ecn">() == 3;
        counted.flagged += bth->get<"rtx">();
        break;
      case MrcOperation::sack: ++counted.sacks; break;
      case MrcOperation::nack: ++counted.nacks; break;
      case MrcOperation::probe: ++counted.probes; break;
      case MrcOperation::endpoint_request: ++counted.requests; break;
      case MrcOperation::endpoint_response: ++counted.responses; break;
      case MrcOperation::acknowledge: break;
    }
  }
  return counted;
}

TEST(MrcAnalysis, CountersOfTheSampleMatchItsHeaders) {
  const Counted counted = count(sample());
  ASSERT_GT(counted.trims, 0U);
  ASSERT_GT(counted.flagged, 0U);
  const Json report = report_for(options_for(sample()));
  EXPECT_EQ(report.at("summary").at("mrc_connections"), 1);
  EXPECT_EQ(report.at("summary").at("truncated_packets"), 0) << "trimmed packets are complete captures";
  const Json& connections = report.at("mrc").at("connections");
  ASSERT_EQ(connections.size(), 1U);
  const Json& one = connections[0];
  EXPECT_EQ(one.at("from"), "2001:db8::1");
  EXPECT_EQ(one.at("to"), "2001:db8::2");
  EXPECT_EQ(one.at("from_qp"), 0x11);
  EXPECT_EQ(one.at("to_qp"), 0x22);
  EXPECT_EQ(one.at("packets"), counted.all);
  EXPECT_EQ(one.at("trimmed"), counted.trims);
  EXPECT_EQ(one.at("retransmitted"), counted.flagged);
  EXPECT_EQ(one.at("sacks"), counted.sacks);
  EXPECT_EQ(one.at("probes"), counted.probes);
  EXPECT_EQ(one.at("messages"), 24);
  EXPECT_EQ(one.at("messages_completed"), 24);
  EXPECT_TRUE(one.at("reverse").is_null());
  ASSERT_EQ(one.at("nacks").size(), 1U);
  EXPECT_EQ(one.at("nacks")[0].at("reason"), "trimmed");
  EXPECT_EQ(one.at("nacks")[0].at("count"), counted.nacks);
  const Json& operations = one.at("endpoint_operations").at("from");
  EXPECT_EQ(number(operations.at("status_updates")) + number(operations.at("probes")), counted.requests);
  EXPECT_EQ(operations.at("responses"), counted.responses);
  EXPECT_EQ(operations.at("port_status"), "0xff");
  const Json& paths = report.at("mrc").at("paths");
  ASSERT_EQ(paths.size(), counted.writes.size());
  for (const Json& path : paths) {
    const auto port = path.at("source_port").get<std::uint16_t>();
    EXPECT_EQ(path.at("packets"), counted.writes.at(port)) << port;
    EXPECT_EQ(path.at("trimmed"), counted.trimmed.at(port)) << port;
    EXPECT_EQ(path.at("ecn_marked"), counted.marked.at(port)) << port;
  }
  const Json& talkers = report.at("talkers");
  ASSERT_EQ(talkers.size(), 2U);
  EXPECT_EQ(talkers[0].at("payload_bytes"), one.at("payload_bytes"));
}

TEST(MrcAnalysis, FindingsHaveFramesAndNameUnverifiedFields) {
  const Json report = report_for(options_for(sample()));
  std::map<std::string, Json> findings;
  for (const Json& finding : report.at("findings")) findings[finding.at("kind").get<std::string>()] = finding;
  ASSERT_TRUE(findings.contains("mrc_trimmed"));
  const Json& trimmed = findings.at("mrc_trimmed");
  EXPECT_THAT(trimmed.at("title").get<std::string>(), HasSubstr("congestion, not corruption"));
  EXPECT_EQ(trimmed.at("confidence"), "certain");
  EXPECT_TRUE(trimmed.at("unverified").empty());
  EXPECT_TRUE(trimmed.at("connection").is_null());
  EXPECT_THAT(trimmed.at("flow").get<std::string>(), HasSubstr("MRC QP 0x11 → 0x22"));
  auto reader = Reader::open(sample());
  ASSERT_TRUE(reader);
  Record record;
  for (std::uint64_t frame = 1; frame <= trimmed.at("first_frame"); ++frame)
    ASSERT_EQ(reader->next(record), Next::record);
  EXPECT_TRUE(tracking::is_trimmed(decode(record.bytes, record.link))) << "the first trimmed frame";
  ASSERT_TRUE(findings.contains("mrc_congested"));
  const Json& congested = findings.at("mrc_congested");
  EXPECT_EQ(congested.at("confidence"), "likely");
  EXPECT_EQ(congested.at("unverified"), Json({"seth.entropy", "seth.spdcid", "seth.dpdcid"}));
  EXPECT_THAT(congested.at("title").get<std::string>(), HasSubstr("(unverified)"));
  EXPECT_THAT(congested.at("meaning").get<std::string>(), HasSubstr("seth.spdcid"));
}

TEST(MrcAnalysis, TextHasTablesOfConnectionsAndPaths) {
  const std::string text = text_of(report_for(options_for(sample())), {.width = 160});
  EXPECT_THAT(text, HasSubstr("MRC connections, most bytes first"));
  EXPECT_THAT(text, HasSubstr("MRC paths (entropy values)"));
  EXPECT_THAT(text, HasSubstr("1 MRC connection"));
  EXPECT_THAT(text, HasSubstr("switches trimmed"));
  EXPECT_THAT(text, Not(HasSubstr("truncated (snap length)")));
}

TEST(MrcAnalysis, CsvHasARowForEachConnectionAndPath) {
  const Scratch scratch;
  auto csv = CsvTables::create(scratch / "tables", false);
  ASSERT_TRUE(csv);
  RunOptions options = options_for(sample());
  options.also = csv->get();
  const Json report = report_for(options);
  ASSERT_TRUE((*csv)->finish());
  const auto lines = [&](const char* name) {
    std::ifstream file(scratch / "tables" + std::string("/") + name);
    std::vector<std::string> all;
    for (std::string line; std::getline(file, line);) all.push_back(line);
    return all;
  };
  const auto connections = lines("mrc_connections.csv"), paths = lines("mrc_paths.csv");
  ASSERT_EQ(connections.size(), 2U);
  EXPECT_THAT(connections[0], HasSubstr("connection,from,from_qp,to,to_qp,"));
  EXPECT_EQ(std::ranges::count(connections[0], ','), std::ranges::count(connections[1], ','));
  EXPECT_THAT(connections[1], HasSubstr("trimmed: "));
  ASSERT_EQ(paths.size(), 1 + report.at("mrc").at("paths").size());
  const Json& first = report.at("mrc").at("paths")[0];
  EXPECT_TRUE(paths[1].starts_with(
      std::to_string(number(first.at("connection"))) + "," + std::to_string(number(first.at("flow_label"))) + "," +
      std::to_string(number(first.at("source_port"))) + "," + first.at("state").get<std::string>()));
}

TEST(MrcAnalysis, SelectedConnectionIsTheOnlyOne) {
  const Json all = report_for(options_for(sample()));
  RunOptions options = options_for(sample());
  options.connection = number(all.at("mrc").at("connections")[0].at("connection"));
  const Json one = report_for(options);
  EXPECT_EQ(one.at("mrc").at("connections"), all.at("mrc").at("connections"));
  options.connection = 2;
  const RunResult none = run(options);
  ASSERT_EQ(none.errors.size(), 1U);
}

TEST(MrcAnalysis, DisabledProtocolIsNotAnalyzed) {
  RunOptions options = options_for(sample());
  ASSERT_FALSE(disable_protocol(options.dissector.decode, "mcr"));
  ASSERT_TRUE(disable_protocol(options.dissector.decode, "mrc"));
  const Json report = report_for(options);
  EXPECT_EQ(report.at("summary").at("mrc_connections"), 0);
  EXPECT_TRUE(report.at("mrc").at("connections").empty());
  EXPECT_EQ(report.at("summary").at("packets"), 223);
}

TEST(MrcAnalysis, SavedAnalysisHasTheSameReport) {
  const RunResult result = run(options_for(sample()));
  const std::string bytes = save(result.analysis);
  auto loaded = load(Bytes(reinterpret_cast<const std::uint8_t*>(bytes.data()), bytes.size()));
  ASSERT_TRUE(loaded) << loaded.error();
  EXPECT_EQ(difference_of(report_of(*loaded, result.input).dump(1), report_of(result.analysis, result.input).dump(1)),
            "");
}

/// A capture of MRC flows between several pairs of addresses, mixed with RoCE packets.
class Generated {
 public:
  explicit Generated(const std::string& path, std::uint32_t seed, std::uint32_t packets, std::uint32_t queue_pairs)
      : path_(path) {
    std::mt19937 random(seed);
    auto writer = Writer::create(path);
    EXPECT_TRUE(writer);
    EXPECT_TRUE(writer->add_interface({}));
    for (std::uint32_t i = 0; i < packets; ++i) {
      const std::uint32_t r = random();
      Record record;
      record.time = 1'000'000 + std::int64_t{i} * 1000;
      std::vector<std::uint8_t> bytes = r % 5 == 0   ? roce(r, i)
                                        : r % 5 == 1 ? sack(r, queue_pairs)
                                                     : write(r, queue_pairs, i);
      record.bytes = bytes;
      record.wire_length = static_cast<std::uint32_t>(bytes.size());
      EXPECT_TRUE(writer->write(record));
    }
    EXPECT_TRUE(writer->close());
  }
  [[nodiscard]] const std::string& path() const { return path_; }

 private:
  static Value<Ipv6> ip(std::uint32_t pair, bool back) {
    std::array<std::uint8_t, 16> one{0x20, 1}, other{0x20, 1};
    one[15] = static_cast<std::uint8_t>(pair);
    other[15] = static_cast<std::uint8_t>(100 + pair);
    return Value<Ipv6>().set<"src">(Bytes(back ? other : one)).set<"dst">(Bytes(back ? one : other));
  }
  static std::vector<std::uint8_t> write(std::uint32_t r, std::uint32_t queue_pairs, std::uint32_t i) {
    Frame frame = Value<Ethernet>() / ip(r >> 4 & 7, false).set<"flow_label">(r >> 8 & 7) /
                  Value<Udp>().set<"src_port">(0xc000 + (r >> 11 & 7));
    frame /= Value<MrcBth>().set<"opcode">(0xca).set<"dest_qp">(0x100 + (r >> 16) % queue_pairs).set<"psn">(i >> 3);
    frame /= HeaderValue(info<Meth>);
    frame /= Value<Reth>().set<"length">(4096);
    frame.payload.resize(r >> 20 & 63);
    return frame.encode();
  }
  static std::vector<std::uint8_t> sack(std::uint32_t r, std::uint32_t queue_pairs) {
    Frame frame = Value<Ethernet>() / ip(r >> 4 & 7, true) / Value<Udp>();
    frame /= Value<MrcBth>().set<"opcode">(0xdc).set<"dest_qp">(0x11);
    frame /= Value<Seth>()
                 .set<"spdcid">(0x100 + (r >> 16) % queue_pairs)
                 .set<"dpdcid">(0x11)
                 .set<"path_state">(r % 3)
                 .set<"entropy">((r >> 8 & 7) << 16 | (0xc000 + (r >> 11 & 7)));
    frame /= HeaderValue(info<CcState>);
    return frame.encode();
  }
  static std::vector<std::uint8_t> roce(std::uint32_t r, std::uint32_t i) {
    Frame frame = Value<Ethernet>() / ip(r >> 4 & 7, false) / Value<Udp>().set<"src_port">(0xd000);
    frame /= Value<Bth>().set<"opcode">(0x04).set<"dest_qp">(0x500 + (r >> 16 & 3)).set<"psn">(i & 0xffffff);
    frame.payload.resize(16);
    return frame.encode();
  }
  std::string path_;
};

TEST(MrcAnalysis, ResultDoesNotDependOnTheNumberOfThreads) {
  const Scratch scratch;
  const Generated capture(scratch / "mrc.pcap", 1, 6'000, 6);
  const std::string one = report_for(options_for(capture.path(), 1)).dump(1);
  EXPECT_THAT(one, HasSubstr("\"mrc_connections\": 48"));
  for (const unsigned threads : {2U, 3U, 7U})
    EXPECT_EQ(difference_of(report_for(options_for(capture.path(), threads)).dump(1), one), "") << threads;
}

TEST(MrcAnalysis, EvictionIsTheSameWithAnyNumberOfThreads) {
  const Scratch scratch;
  const Generated capture(scratch / "mrc.pcap", 2, 6'000, 60);
  const auto limited = [&](unsigned threads) {
    RunOptions options = options_for(capture.path(), threads);
    options.tracker.memory = 600'000;
    return report_for(options);
  };
  const Json one = limited(1);
  EXPECT_FALSE(one.at("input").at("exact"));
  EXPECT_GT(one.at("input").at("evicted").at("connections"), 0);
  EXPECT_GT(one.at("summary").at("mrc_connections"), 480);
  bool notice = false;
  for (const Json& finding : one.at("findings")) notice |= finding.at("kind") == "inexact";
  EXPECT_TRUE(notice);
  std::uint64_t packets = 0;
  for (const Json& connection : one.at("mrc").at("connections")) packets += number(connection.at("packets"));
  const Json all = report_for(options_for(capture.path()));
  std::uint64_t unlimited = 0;
  for (const Json& connection : all.at("mrc").at("connections")) unlimited += number(connection.at("packets"));
  EXPECT_TRUE(all.at("input").at("exact"));
  EXPECT_EQ(packets, unlimited) << "evicted connections keep their counters";
  for (const unsigned threads : {2U, 7U}) EXPECT_EQ(difference_of(limited(threads).dump(1), one.dump(1)), "");
}

tracking::MrcFlow flow_of(std::uint64_t frame, std::uint64_t bytes, std::size_t paths) {
  tracking::MrcFlow flow;
  flow.first_frame = frame;
  flow.payload_bytes = bytes;
  flow.paths.resize(paths);
  return flow;
}

TEST(MrcFlows, KeepsTheFlowsWithTheMostBytesInAnyOrder) {
  std::vector<tracking::MrcFlow> flows;
  for (std::uint64_t i = 1; i <= 200; ++i) flows.push_back(flow_of(i, i * 37 % 101, 1 + i % 30));
  const auto frames = [](const MrcFlows& kept) {
    std::vector<std::uint64_t> all;
    for (const tracking::MrcFlow& flow : kept.sorted()) all.push_back(flow.first_frame);
    return all;
  };
  MrcFlows forward(500), backward(500), merged(500), half(500);
  for (const tracking::MrcFlow& flow : flows) forward.add(flow);
  for (std::size_t i = flows.size(); i-- > 0;) backward.add(flows[i]);
  for (std::size_t i = 0; i < flows.size(); ++i) (i % 2 ? merged : half).add(flows[i]);
  merged.merge(half);
  ASSERT_GT(frames(forward).size(), 10U);
  EXPECT_EQ(frames(forward), frames(backward));
  EXPECT_EQ(frames(forward), frames(merged));
  EXPECT_EQ(forward.dropped() + frames(forward).size(), flows.size());
  EXPECT_EQ(backward.dropped(), forward.dropped());
  EXPECT_EQ(merged.dropped(), forward.dropped());
  std::size_t weight = 0;
  for (const tracking::MrcFlow& flow : forward.sorted()) weight += flow.paths.size() + 8;
  EXPECT_LE(weight, 500U);
  EXPECT_EQ(MrcFlows(500).dropped(), 0U);
}

// If a flow is dropped, later flows are dropped too, even if they would fit.
TEST(MrcFlows, FlowsBehindADroppedOneAreDroppedInAnyOrder) {
  std::vector<tracking::MrcFlow> flows{flow_of(1, 1000, 82), flow_of(2, 900, 52), flow_of(3, 800, 52),
                                       flow_of(4, 10, 1)};
  std::ranges::sort(flows, {}, &tracking::MrcFlow::first_frame);
  do {
    MrcFlows kept(100), first(100), second(100);
    for (std::size_t i = 0; i < flows.size(); ++i) {
      kept.add(flows[i]);
      (i < 2 ? first : second).add(flows[i]);
    }
    first.merge(second);
    for (const MrcFlows* one : {&kept, &first}) {
      ASSERT_EQ(one->sorted().size(), 1U);
      EXPECT_EQ(one->sorted()[0].first_frame, 1U);
      EXPECT_EQ(one->dropped(), 3U);
    }
  } while (std::ranges::next_permutation(flows, {}, &tracking::MrcFlow::first_frame).found);
}

}  // namespace
}  // namespace rdmawire::captures::analysis
