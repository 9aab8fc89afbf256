#include "conformance/device/mrc/exchange.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <random>
#include <set>
#include <string>

#include "captures/io/writer.hpp"
#include "conformance/monitors/monitored.hpp"
#include "conformance/monitors/monitors.hpp"
#include "dissectors/protocol/decode.hpp"
#include "dissectors/protocol/encode.hpp"
#include "dissectors/protocol/ethernet.hpp"
#include "dissectors/protocol/ip.hpp"
#include "dissectors/protocol/transport.hpp"
#include "dissectors/tracking/dissector.hpp"
#include "dissectors/tracking/tracker.hpp"
#include "source_directory.hpp"

namespace rdmawire::conformance::mrc {
namespace {

using ::testing::IsEmpty;

std::uint8_t mrc_opcode_of(std::string_view name) {
  for (const MrcOpcode& op : mrc_opcodes)
    if (op.name == name) return op.value;
  ADD_FAILURE() << name;
  return 0;
}

struct Results {
  std::set<std::string> violated, evaluated;
  std::size_t mrc_packets = 0;
};

// Returns the results of the monitors. `complete`: they assume that the capture contains all packets as sent.
Results check(const std::vector<CapturedFrame>& frames, bool complete) {
  MonitorOptions options;
  options.assumptions.everywhere = complete;
  Monitors monitors(options);
  tracking::TrackerOptions tracking_options;
  tracking_options.transport = true;
  tracking::Tracker tracker(monitors, tracking_options);
  tracking::Dissector dissector;
  tracking::Packet packet;
  Results results;
  for (const CapturedFrame& frame : frames) {
    ++packet.number;
    packet.time_ns = frame.time;
    dissector.dissect(packet, frame.bytes, static_cast<std::uint32_t>(frame.bytes.size()));
    results.mrc_packets += packet.stack.find(info<MrcBth>) != nullptr;
    monitors.take(packet);
    tracker.add(packet);
  }
  tracker.finish();
  for (std::size_t i = 0; i < rules.size(); ++i) {
    const ResultCounters& counters = monitors.evaluator().counters()[i];
    if (counters.violated) results.violated.insert(std::string(rules[i].id));
    if (counters.evaluated()) results.evaluated.insert(std::string(rules[i].id));
  }
  for (const Violation& violation : monitors.evaluator().violations()) {
    EXPECT_FALSE(violation.statement.expected.empty()) << violation.of().id;
    EXPECT_FALSE(violation.statement.actual.empty()) << violation.of().id;
    EXPECT_NE(violation.statement.expected, violation.statement.actual) << violation.of().id;
    EXPECT_FALSE(violation.sequence.empty()) << violation.of().id;
  }
  return results;
}

// A capture can contain many QPs with one packet each.
TEST(MrcExchange, QueuePairOfOnePacketNeedsOneEntry) {
  Monitors monitors{MonitorOptions()};
  tracking::Dissector dissector;
  tracking::Packet packet;
  constexpr std::uint64_t count = 3000;
  const std::uint8_t write_only = mrc_opcode_of("MRC RDMA WRITE Only");
  for (std::uint64_t i = 0; i < count; ++i) {
    Value<Ipv6> ip;
    ip.set<"hop_limit">(64);
    Frame frame = Value<Ethernet>() / ip / Value<Udp>().set<"src_port">(50000);
    frame /= Value<MrcBth>().set<"opcode">(write_only).set<"dest_qp">(0x100 + i);
    frame /= Value<Meth>();
    frame /= Value<Reth>();
    const auto bytes = frame.encode();
    ++packet.number;
    dissector.dissect(packet, bytes, static_cast<std::uint32_t>(bytes.size()));
    ASSERT_NE(packet.stack.find(info<MrcBth>), nullptr);
    ASSERT_EQ(packet.icrc.status, CrcCheck::Status::good);
    monitors.take(packet);
  }
  std::vector<tracking::Level> levels;
  monitors.append_levels(levels);
  ASSERT_GE(levels.size(), 3U);
  const tracking::Level queue_pairs = levels[levels.size() - 3], entries = levels[levels.size() - 2];
  EXPECT_EQ(queue_pairs.highest, count);
  EXPECT_EQ(entries.highest, count);
}

TEST(MrcExchange, SoundEndpointsViolateNoRule) {
  for (std::uint64_t seed = 1; seed <= 20; ++seed)
    for (const bool complete : {false, true}) {
      // The capture is incomplete if the network loses packets, because it does so before the capture point.
      const auto frames = run({.seed = seed, .path_fails = !complete});
      const Results results = check(frames, complete);
      EXPECT_EQ(results.mrc_packets, frames.size());
      EXPECT_THAT(results.violated, IsEmpty()) << seed;
      if (complete) continue;
      for (const Rule& rule : mrc_rules) EXPECT_TRUE(results.evaluated.contains(std::string(rule.id))) << rule.id;
    }
}

TEST(MrcExchange, EachRuleIsMonitoredAndHasAFault) {
  std::set<std::string_view> broken;
  for (const Fault& fault : faults) broken.insert(fault.rule);
  for (const Rule& rule : mrc_rules) {
    EXPECT_TRUE(is_monitored(RuleId::at(static_cast<std::size_t>(find_rule(rule.id) - rules.data())))) << rule.id;
    EXPECT_TRUE(broken.contains(rule.id)) << rule.id;
  }
}

class EachFault : public ::testing::TestWithParam<std::size_t> {};
TEST_P(EachFault, IsReportedUnderItsRule) {
  const Fault& fault = faults[GetParam()];
  const Results results = check(run({.fault = &fault}), true);
  EXPECT_TRUE(results.violated.contains(std::string(fault.rule))) << ::testing::PrintToString(results.violated);
}
INSTANTIATE_TEST_SUITE_P(Mrc, EachFault, ::testing::Range(std::size_t{0}, faults.size()), [](const auto& parameter) {
  std::string name(faults[parameter.param].name);
  std::ranges::replace(name, '-', '_');
  return name;
});

// Packets are removed, reordered and damaged in the captures of conforming endpoints.
TEST(MrcExchange, DisturbedCaptureShowsNoViolation) {
  std::mt19937 random(5);
  for (std::uint64_t seed = 1; seed <= 400; ++seed) {
    std::vector<CapturedFrame> frames;
    for (CapturedFrame& frame : run({.seed = seed, .messages = 60})) {
      if (random() % 8 == 0) continue;
      // Damage only later bytes of a trimmed packet: it has no ICRC, and a damaged opcode would hide that it is MRC.
      const std::size_t from = decode(frame.bytes).cut ? 74 : 62;
      if (random() % 16 == 0) frame.bytes[from + random() % (frame.bytes.size() - from)] ^= 1U << random() % 8;
      frames.push_back(std::move(frame));
      if (frames.size() > 3 && random() % 8 == 0) std::swap(frames.back().bytes, frames[frames.size() - 3].bytes);
    }
    EXPECT_THAT(check(frames, false).violated, IsEmpty()) << seed;
  }
}

TEST(MrcExchange, EveryMessageCompletes) {
  const auto frames = run({.messages = 40});
  std::uint64_t completed = 0;
  for (const CapturedFrame& frame : frames)
    if (const HeaderStack stack = decode(frame.bytes); const auto aeth = stack.get<Aeth>())
      completed = std::max<std::uint64_t>(completed, aeth->get<"msn">());
  EXPECT_EQ(completed, 40U);
}

std::string content(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

// With RDMAWIRE_UPDATE_SAMPLES, writes the sample.
TEST(MrcExchange, SampleIsItsOutput) {
  const std::string sample = RDMAWIRE_SOURCE_DIR "/captures/samples/mrc.pcap";
  const std::string path =
      std::getenv("RDMAWIRE_UPDATE_SAMPLES") ? sample : ::testing::TempDir() + "rdmawire-mrc-sample.pcap";
  {
    auto writer = captures::Writer::create(path);
    ASSERT_TRUE(writer);
    captures::Interface interface;
    interface.snap_length = 262144;
    ASSERT_TRUE(writer->add_interface(interface));
    constexpr std::int64_t start = 1'790'000'000'000'000'000;  // a fixed date
    const auto frames = run({});
    for (const CapturedFrame& frame : frames) {
      captures::Record record;
      record.bytes = frame.bytes;
      record.time = start + frame.time;
      record.wire_length = static_cast<std::uint32_t>(frame.bytes.size());
      ASSERT_TRUE(writer->write(record));
    }
    ASSERT_TRUE(writer->close());
  }
  EXPECT_TRUE(content(path) == content(sample)) << "run this test with RDMAWIRE_UPDATE_SAMPLES=1";
  if (path != sample) std::filesystem::remove(path);
}

TEST(MrcExchange, IsRepeatable) {
  const auto one = run({.seed = 3}), other = run({.seed = 3});
  ASSERT_EQ(one.size(), other.size());
  for (std::size_t i = 0; i < one.size(); ++i) EXPECT_EQ(one[i].bytes, other[i].bytes);
}

}  // namespace
}  // namespace rdmawire::conformance::mrc
