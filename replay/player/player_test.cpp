#include "replay/player/player.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <thread>

#include "captures/io/test_support.hpp"
#include "captures/io/writer.hpp"
#include "dissectors/protocol/arp.hpp"
#include "dissectors/protocol/crc.hpp"
#include "dissectors/protocol/decode.hpp"
#include "replay/faults/frames_for_test.hpp"
#include "replay/rewrite/maps_for_test.hpp"
#include "replay/wires/clock.hpp"
#include "replay/wires/departures.hpp"
#include "replay/wires/namespaces_for_test.hpp"
#include "replay/wires/pair.hpp"

namespace rdmawire::replay {
namespace {

using captures::testing_support::TemporaryDirectory;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;
using tracking::testing::sample;
using ByteVector = std::vector<std::uint8_t>;
namespace frames = rdmawire::replay::testing;
using frames::op::send_only;

/// Records sent frames, in virtual time by default. Can be configured to fail.
class Recorder : public Wire {
 public:
  struct Entry {
    ByteVector frame;
    std::int64_t time;
  };
  explicit Recorder(bool real = false) {
    capabilities_.virtual_time = !real;
    capabilities_.batch = 4;
  }
  using Wire::send;
  [[nodiscard]] const std::string& name() const override { return name_; }
  [[nodiscard]] const WireCapabilities& capabilities() const override { return capabilities_; }
  WireResult<std::size_t> send(std::span<const Outgoing> outgoing) override {
    if (entries.size() >= down_after) return tl::unexpected(WireError{WireError::Kind::down, 0, "recorder: unplugged"});
    std::size_t taken = 0;
    for (const Outgoing& frame : outgoing) {
      if (entries.size() >= down_after || (full_after && entries.size() >= *full_after)) break;
      entries.push_back({{frame.frame.begin(), frame.frame.end()}, frame.time});
      ++taken;
    }
    return taken;
  }
  WireResult<std::optional<Received>> receive(std::int64_t) override { return std::nullopt; }
  WireResult<bool> writable(std::int64_t) override { return false; }
  [[nodiscard]] WireCounters counters() const override {
    WireCounters counters;
    counters.sent = entries.size() - std::min(lost, entries.size());
    for (std::size_t i = 0; i < counters.sent; ++i) counters.sent_bytes += entries[i].frame.size();
    return counters;
  }
  void close() override {}
  [[nodiscard]] std::vector<std::uint32_t> psns() const {
    std::vector<std::uint32_t> all;
    for (const Entry& entry : entries) all.push_back(decode(entry.frame).get<Bth>()->get<"psn">());
    return all;
  }
  [[nodiscard]] std::vector<std::int64_t> times() const {
    std::vector<std::int64_t> all;
    for (const Entry& entry : entries) all.push_back(entry.time);
    return all;
  }

  std::vector<Entry> entries;
  std::size_t down_after = SIZE_MAX, lost = 0;
  std::optional<std::size_t> full_after;
  WireCapabilities capabilities_;

 private:
  std::string name_ = "recorder";
};

class PlayerTest : public ::testing::Test {
 protected:
  struct Made {
    std::int64_t time;
    ByteVector frame;
    std::uint32_t wire_bytes = 0;  ///< 0: not truncated
  };
  std::string capture(const std::string& name, const std::vector<Made>& made) {
    const std::string path = directory_.file(name);
    auto writer = captures::Writer::create(path).value();
    (void)writer.add_interface({});
    for (const Made& m : made) {
      captures::Record record;
      record.bytes = m.frame;
      record.time = m.time;
      record.wire_length = m.wire_bytes ? m.wire_bytes : static_cast<std::uint32_t>(m.frame.size());
      EXPECT_TRUE(writer.write(record));
    }
    EXPECT_TRUE(writer.close());
    return path;
  }
  /// Requests from a with PSNs from 100 on, spaced by one microsecond, starting at second 1000.
  std::string requests(std::uint32_t count) {
    std::vector<Made> made;
    for (std::uint32_t i = 0; i < count; ++i) made.push_back({begin + i * 1000, frames::request(100 + i)});
    return capture("requests.pcapng", made);
  }
  static ReplayReport run(const PlayerOptions& options, Recorder& wire) {
    Wire* const wires[] = {&wire};
    return play(options, wires);
  }
  static FlowMap map_of_frames() {
    MappedConnection c;
    c.name = "connection 1";
    c.at(Side::a).address.captured = PortAddress::of_ipv4(0x0a000002);
    c.at(Side::b).address.captured = PortAddress::of_ipv4(0x0a000003);
    c.at(Side::a).qp.captured = 0x12;
    c.at(Side::b).qp = {0x11, 0x888};
    c.at(Side::a).psn = {100, 7};
    return {{c}, {}};
  }
  static constexpr std::int64_t begin = 1'000'000'000'000;
  TemporaryDirectory directory_;
};

TEST_F(PlayerTest, VirtualTimeKeepsCapturedTimes) {
  Recorder wire;
  PlayerOptions options;
  options.files = {requests(5)};
  const ReplayReport report = run(options, wire);
  EXPECT_EQ(report.trouble, "");
  EXPECT_EQ(report.sent, 5U);
  EXPECT_THAT(wire.times(), ElementsAre(begin, begin + 1000, begin + 2000, begin + 3000, begin + 4000));
  EXPECT_THAT(wire.psns(), ElementsAre(100, 101, 102, 103, 104));
  EXPECT_EQ(report.requested, 4000);
  EXPECT_FALSE(report.timed);
}

TEST_F(PlayerTest, SpeedFactorAndPacketRate) {
  PlayerOptions options;
  options.files = {requests(3)};
  options.pace.rate = 2;
  Recorder twice;
  run(options, twice);
  EXPECT_THAT(twice.times(), ElementsAre(begin, begin + 500, begin + 1000));
  options.pace = {Pace::Kind::packets, 1000};
  Recorder steady;
  run(options, steady);
  EXPECT_THAT(steady.times(), ElementsAre(begin, begin + 1'000'000, begin + 2'000'000));
}

// Every second frame is skipped because of its group address.
TEST_F(PlayerTest, RatesCountOnlyFramesToSend) {
  std::vector<Made> made;
  for (std::uint32_t i = 0; i < 6; ++i) {
    made.push_back({begin + i * 1000, frames::request(100 + i)});
    if (i % 2 == 1) made.back().frame[0] |= 1;
  }
  PlayerOptions options;
  options.files = {capture("groups.pcapng", made)};
  options.allow_groups = false;
  options.pace = {Pace::Kind::packets, 1000};
  Recorder frames_per_second;
  EXPECT_EQ(run(options, frames_per_second).skip(Skip::group).frames, 3U);
  EXPECT_THAT(frames_per_second.times(), ElementsAre(begin, begin + 1'000'000, begin + 2'000'000));

  // One byte per nanosecond. The sent frames have 60 bytes, the captured ones more.
  options.pace = {Pace::Kind::bits, 8e9};
  options.too_long = PlayerOptions::TooLong::truncate;
  Recorder bits_per_second;
  bits_per_second.capabilities_.max_bytes = 60;
  run(options, bits_per_second);
  EXPECT_THAT(bits_per_second.times(), ElementsAre(begin, begin + 60, begin + 120));
}

TEST_F(PlayerTest, LoopsArePausedAndPsnsContinue) {
  PlayerOptions options;
  options.files = {requests(2)};
  options.map = map_of_frames();
  options.loops = 3;
  options.pause = 50;
  options.changes.psns = {{2, 0}};
  Recorder wire;
  const ReplayReport report = run(options, wire);
  EXPECT_EQ(report.loops, 3U);
  EXPECT_THAT(wire.times(), ElementsAre(begin, begin + 1000, begin + 1050, begin + 2050, begin + 2100, begin + 3100));
  EXPECT_THAT(wire.psns(), ElementsAre(7, 8, 9, 10, 11, 12));
  for (const auto& entry : wire.entries) EXPECT_EQ(check_icrc(decode(entry.frame)).status, CrcCheck::Status::good);
}

TEST_F(PlayerTest, LoopsCanChangeAddressesAndQpNumbers) {
  PlayerOptions options;
  options.files = {requests(1)};
  options.map = map_of_frames();
  options.loops = 2;
  options.changes.ip_step = 256;
  options.changes.qp_step = 2;
  Recorder wire;
  run(options, wire);
  ASSERT_EQ(wire.entries.size(), 2U);
  const HeaderStack second = decode(wire.entries[1].frame);
  EXPECT_EQ(second.get<Ipv4>()->get<"src">(), 0x0a000102U);
  EXPECT_EQ(second.get<Ipv4>()->get<"dst">(), 0x0a000103U);
  EXPECT_EQ(second.get<Bth>()->get<"dest_qp">(), 0x88aU);
}

TEST_F(PlayerTest, PreloadedReplayIsIdentical) {
  PlayerOptions options;
  options.files = {requests(3)};
  options.map = map_of_frames();
  options.loops = 3;
  options.pause = 77;
  Recorder streamed, loaded;
  run(options, streamed);
  options.preload = true;
  const ReplayReport report = run(options, loaded);
  EXPECT_EQ(report.loops, 3U);
  EXPECT_EQ(loaded.times(), streamed.times());
  EXPECT_EQ(loaded.psns(), streamed.psns());
  // Loops that differ are prepared one by one.
  options.changes.qp_step = 1;
  options.changes.ip_step = 256;
  options.preload = false;
  Recorder stepped, loaded_steps;
  run(options, stepped);
  options.preload = true;
  EXPECT_EQ(run(options, loaded_steps).loops, 3U);
  ASSERT_EQ(loaded_steps.entries.size(), 9U);
  EXPECT_EQ(loaded_steps.times(), stepped.times());
  for (std::size_t i = 0; i < 9; ++i) EXPECT_EQ(loaded_steps.entries[i].frame, stepped.entries[i].frame);
  EXPECT_NE(loaded_steps.entries[0].frame, loaded_steps.entries[3].frame);
  options.loops = 0;
  EXPECT_THAT(run(options, loaded).trouble, HasSubstr("only if their number is limited"));
}

TEST_F(PlayerTest, LoopsChangeAddressesOutsideOfConnections) {
  ByteVector to_group = frames::tcp(true, 1, 8);
  store_be(to_group.data() + 30, 4, 0xe0000001);
  PlayerOptions options;
  options.files = {capture("tcp.pcapng", {{begin, frames::tcp(true, 1, 8)}, {begin + 1, to_group}})};
  options.rewrite.others = options.rewrite.unmapped = Unmapped::keep;
  options.loops = 3;
  options.changes.ip_step = 256;
  Recorder wire;
  EXPECT_EQ(run(options, wire).trouble, "");
  ASSERT_EQ(wire.entries.size(), 6U);
  for (std::uint32_t loop = 0; loop < 3; ++loop) {
    const HeaderStack stack = decode(wire.entries[2 * loop].frame);
    EXPECT_EQ(stack.get<Ipv4>()->get<"src">(), 0x0a000002U + loop * 256);
    EXPECT_EQ(stack.get<Ipv4>()->get<"dst">(), 0x0a000003U + loop * 256);
    EXPECT_EQ(internet_checksum(stack.bytes_of(*stack.find(info<Ipv4>))), 0);
    EXPECT_EQ(decode(wire.entries[2 * loop + 1].frame).get<Ipv4>()->get<"dst">(), 0xe0000001U)
        << "a group address is not the address of a host";
  }
}

TEST_F(PlayerTest, MtuShortensOrFragmentsLongFrames) {
  PlayerOptions options;
  Frame big = frames::between(true) / Value<Udp>() / Value<Bth>().set<"opcode">(4).set<"dest_qp">(0x11);
  big.payload.assign(1000, 0x5a);
  options.files = {capture("big.pcapng", {{begin, big.encode()}, {begin + 1, frames::request(1)}})};
  options.mtu = 500;
  Recorder skipping, truncating, shortening, dividing;
  const ReplayReport skipped = run(options, skipping);
  EXPECT_EQ(skipped.skip(Skip::too_long).example, "1058 bytes, the maximum of the wire and --mtu is 514");
  options.too_long = PlayerOptions::TooLong::truncate;
  EXPECT_EQ(run(options, truncating).truncated, 1U);
  EXPECT_EQ(truncating.entries[0].frame.size(), 514U);
  options.too_long = PlayerOptions::TooLong::shorten;
  EXPECT_EQ(run(options, shortening).shortened, 1U);
  EXPECT_EQ(shortening.entries[0].frame.size(), 514U);
  EXPECT_EQ(decode(shortening.entries[0].frame).get<Ipv4>()->get<"total_length">(), 500U);
  options.too_long = PlayerOptions::TooLong::fragment;
  const ReplayReport divided = run(options, dividing);
  EXPECT_EQ(divided.fragmented, 1U);
  EXPECT_EQ(divided.fragments, 3U);
  EXPECT_EQ(divided.sent, 4U);
  for (const auto& entry : dividing.entries) EXPECT_LE(entry.frame.size(), 514U);
  EXPECT_EQ(dividing.entries[3].frame, frames::request(1)) << "the order is kept";
  // Faults apply to the whole packet.
  options.faults = FaultProgram::compile("drop psn 1").value();
  Recorder faulty;
  EXPECT_EQ(run(options, faulty).sent, 3U);
}

TEST_F(PlayerTest, TruncatedFramesAreShortenedWithValidLengths) {
  const ByteVector whole = frames::request(100);
  ByteVector cut(whole.begin(), whole.begin() + 63);
  ByteVector headers(whole.begin(), whole.begin() + 50);
  PlayerOptions options;
  options.files = {capture("cut.pcapng", {{begin, cut, 66}, {begin + 1, headers, 66}})};
  options.snapped = PlayerOptions::Snapped::shorten;
  Recorder wire;
  const ReplayReport report = run(options, wire);
  EXPECT_EQ(report.shortened, 1U);
  EXPECT_EQ(report.skip(Skip::snapped).frames, 1U) << "the BTH is incomplete";
  ASSERT_EQ(wire.entries.size(), 1U);
  const HeaderStack stack = decode(wire.entries[0].frame);
  EXPECT_TRUE(stack.findings().empty());
  EXPECT_EQ(check_icrc(stack).status, CrcCheck::Status::good);
}

// Frames leave 3 µs after their time, except the second one, which leaves 1 µs early.
TEST_F(PlayerTest, DeparturesAreComparedWithTheSchedule) {
  class Stamping : public Recorder, public DepartureTimes {
   public:
    Stamping() : Recorder(true) { capabilities_.paces = true; }
    [[nodiscard]] const char* departure_source() const override { return source; }
    void read_departures(std::vector<Departure>& departures) override {
      for (; read < entries.size(); ++read)
        if (read != 3) departures.push_back({read, entries[read].time + (read == 1 ? -1000 : 3000)});
    }
    const char* source = "kernel";
    std::size_t read = 0;
  };
  PlayerOptions options;
  options.files = {requests(6)};
  Stamping wire;
  const ReplayReport report = run(options, wire);
  EXPECT_EQ(report.sent, 6U);
  EXPECT_EQ(report.departures.source, "kernel");
  EXPECT_EQ(report.departures.frames, 5U) << "the timestamp of the fourth frame is lost";
  EXPECT_EQ(report.departures.early, 1U);
  EXPECT_EQ(report.departures.lateness.max(), 3000U);
  EXPECT_EQ(report.departures.spacing.max(), 4000U);
  EXPECT_THAT(to_text(report), HasSubstr("left       5 frames by the clock of the kernel: lateness p50"));
  EXPECT_EQ(nlohmann::json::parse(to_json(report))["departures"]["early"], 1);

  Stamping device;
  device.source = "device";
  const ReplayReport relative = run(options, device);
  EXPECT_EQ(relative.departures.frames, 5U);
  EXPECT_EQ(relative.departures.early, 1U);
  EXPECT_EQ(relative.departures.lateness.max(), 0U) << "relative to the first frame, which left 3 us late";
  EXPECT_EQ(relative.departures.spacing.max(), 4000U);
  EXPECT_THAT(to_text(relative), HasSubstr("by the clock of the device: later than the first p50"));
}

TEST_F(PlayerTest, SentFramesAndFlowsAreReported) {
  PlayerOptions options;
  options.files = {requests(5)};
  options.loops = 2;
  options.flow_statistics = true;
  std::vector<std::pair<std::uint64_t, std::uint64_t>> sent;
  options.on_sent = [&](const SentFrame& frame) {
    sent.emplace_back(frame.number, frame.loop);
    EXPECT_EQ(ByteVector(frame.frame.begin(), frame.frame.end()),
              frames::request(99 + static_cast<std::uint32_t>(frame.number)));
  };
  for (const bool real : {false, true}) {
    sent.clear();
    Recorder wire(real);
    wire.down_after = 7;
    const ReplayReport report = run(options, wire);
    ASSERT_EQ(sent.size(), 7U) << "only frames that the wire accepted";
    EXPECT_EQ(sent.back(), std::pair(std::uint64_t{2}, std::uint64_t{2}));
    ASSERT_TRUE(report.flow_statistics);
    EXPECT_EQ(report.flow_statistics->flows, 1U);
    EXPECT_EQ(report.flow_statistics->largest.at(0).frames, 7U);
    EXPECT_THAT(to_text(report), HasSubstr("RoCE QP 0x11: 7 frames"));
    EXPECT_EQ(nlohmann::json::parse(to_json(report))["flow_statistics"]["list"][0]["frames"], 7);
  }
}

TEST_F(PlayerTest, LimitsEndReplay) {
  PlayerOptions options;
  options.files = {requests(10)};
  const std::size_t bytes = frames::request(100).size();
  auto sent = [&] {
    Recorder wire;
    return run(options, wire).sent;
  };
  options.most_frames = 4;
  EXPECT_EQ(sent(), 4U);
  options.most_frames = 0;
  options.max_bytes = 3 * bytes + 1;
  EXPECT_EQ(sent(), 3U);
  options.max_bytes = 0;
  options.most_time = 2000;
  EXPECT_EQ(sent(), 2U) << "frames of the first two microseconds";
  options.most_time = 0;
  options.loops = 0;
  options.most_frames = 25;
  EXPECT_EQ(sent(), 25U) << "unlimited loops, limited frames";
}

TEST_F(PlayerTest, LoopsAtTopSpeedArePaused) {
  for (const bool preload : {false, true}) {
    PlayerOptions options;
    options.files = {requests(3)};
    options.loops = 3;
    options.pause = 30'000'000;
    options.pace.kind = Pace::Kind::top;
    options.preload = preload;
    Recorder wire(true);
    const ReplayReport report = run(options, wire);
    EXPECT_EQ(report.sent, 9U);
    EXPECT_GE(report.achieved, 60'000'000);
    EXPECT_LT(report.achieved, 1'000'000'000);
  }
}

// At 1000 bits per second, a frame leaves about every 0.7 s.
TEST_F(PlayerTest, TimeLimitHoldsUnderRateCap) {
  for (const auto kind : {Pace::Kind::packets, Pace::Kind::top})
    for (const bool real : {true, false}) {
      PlayerOptions options;
      options.files = {requests(30)};
      options.loops = 0;
      options.pace = {kind, 1000};
      options.rate_cap = 1000;
      options.most_time = 100'000'000;
      Recorder wire(real);
      const ReplayReport report = run(options, wire);
      EXPECT_FALSE(report.interrupted);
      EXPECT_EQ(report.trouble, "");
      EXPECT_EQ(report.sent, 1U);
      EXPECT_LT(report.achieved, 100'000'000);
    }
}

TEST_F(PlayerTest, GapOfMoreThanOneHourIsAnnounced) {
  constexpr std::int64_t day = 86'400'000'000'000;
  PlayerOptions options;
  options.files = {capture("days.pcapng", {{begin, frames::request(100)}, {begin + 3 * day, frames::request(101)}})};
  std::atomic<bool> stop = false;
  options.stop = &stop;
  std::vector<std::pair<std::int64_t, std::uint64_t>> gaps;
  options.long_gap = [&](std::int64_t gap, std::uint64_t frame) {
    gaps.emplace_back(gap, frame);
    stop = true;
  };
  Recorder wire(true);
  EXPECT_TRUE(run(options, wire).interrupted);
  ASSERT_EQ(gaps.size(), 1U);
  EXPECT_GT(gaps[0].first, 2 * day);
  EXPECT_EQ(gaps[0].second, 2U);
}

TEST_F(PlayerTest, SingleBatchAtTopSpeedHasDuration) {
  PlayerOptions options;
  options.files = {requests(3)};
  options.pace.kind = Pace::Kind::top;
  Recorder wire(true);
  const ReplayReport report = run(options, wire);
  EXPECT_EQ(report.sent, 3U);
  EXPECT_GT(report.achieved, 0);
  EXPECT_THAT(to_text(report), Not(HasSubstr("(0 frames/s")));
}

TEST_F(PlayerTest, FiltersSelectFrames) {
  PlayerOptions options;
  options.files = {requests(10)};
  options.include = output::Filter::compile("bth.psn >= 103").value();
  options.exclude = output::Filter::compile("bth.psn == 105").value();
  Recorder wire;
  const ReplayReport report = run(options, wire);
  EXPECT_THAT(wire.psns(), ElementsAre(103, 104, 106, 107, 108, 109));
  EXPECT_EQ(report.skip(Skip::excluded).frames, 4U);
  EXPECT_EQ(wire.times()[0], begin + 3000);
}

TEST_F(PlayerTest, EditCallbackChangesAndDropsFrames) {
  PlayerOptions options;
  options.files = {requests(4)};
  options.edit = [](const PlayedFrame& frame) -> std::optional<std::vector<std::uint8_t>> {
    if (frame.number == 2) return std::nullopt;
    std::vector<std::uint8_t> bytes(frame.frame.begin(), frame.frame.end());
    if (frame.number == 3) bytes.resize(14);
    return bytes;
  };
  Recorder wire;
  const ReplayReport report = run(options, wire);
  EXPECT_EQ(report.sent, 3U);
  EXPECT_EQ(report.skip(Skip::excluded).frames, 1U);
  EXPECT_EQ(wire.entries[1].frame.size(), 14U);
}

TEST_F(PlayerTest, EditCallbackRunsInCallersThread) {
  PlayerOptions options;
  options.files = {requests(4)};
  options.pace.kind = Pace::Kind::top;
  std::size_t others = 0;
  options.edit = [&, here = std::this_thread::get_id()](const PlayedFrame& frame) {
    others += std::this_thread::get_id() != here;
    return std::optional(ByteVector(frame.frame.begin(), frame.frame.end()));
  };
  Recorder wire(true);
  EXPECT_EQ(run(options, wire).sent, 4U);
  EXPECT_EQ(others, 0U);
}

TEST_F(PlayerTest, WireFailureReportsSentFrames) {
  PlayerOptions options;
  options.files = {requests(10)};
  options.map = map_of_frames();
  Recorder wire;
  wire.down_after = 6;
  const ReplayReport report = run(options, wire);
  EXPECT_EQ(report.trouble, "recorder: unplugged (first unsent frame of the capture: 7)");
  EXPECT_EQ(report.sent, 6U);
  EXPECT_EQ(report.bytes, 6 * frames::request(100).size());
  ASSERT_EQ(report.flows.size(), 1U);
  EXPECT_EQ(report.flows[0].frames[0], 6U);
  EXPECT_THAT(to_text(report), HasSubstr("sent 6 frames"));
}

TEST_F(PlayerTest, FramesLostByDeviceDoNotCountAsSent) {
  PlayerOptions options;
  options.files = {requests(10)};
  Recorder wire;
  wire.lost = 3;
  const ReplayReport report = run(options, wire);
  EXPECT_EQ(report.sent, 7U);
  EXPECT_EQ(report.lanes[0].frames, 10U);
  EXPECT_THAT(to_text(report), HasSubstr("10 frames accepted, 7 sent"));
}

// One frame leaves per call of flush(), each of which takes half of the patience.
TEST_F(PlayerTest, FlushContinuesWhileFramesLeave) {
  class Slow final : public Recorder {
   public:
    explicit Slow(std::uint64_t stuck) : Recorder(true), stuck_(stuck) {}
    WireResult<bool> flush(std::int64_t) override {
      wire_clock::sleep_until(now() + 20'000'000);
      if (lost > stuck_) --lost;
      return lost == 0;
    }

   private:
    std::uint64_t stuck_;
  };
  PlayerOptions options;
  options.files = {requests(12)};
  options.patience = 40'000'000;
  for (const std::uint64_t stuck : {0U, 2U}) {
    Slow wire(stuck);
    wire.lost = 10;
    const ReplayReport report = run(options, wire);
    EXPECT_EQ(report.sent, 12 - stuck);
    EXPECT_THAT(report.trouble, HasSubstr(stuck == 0 ? "" : "recorder: 2 frames may not have left"));
    EXPECT_EQ(report.trouble.empty(), stuck == 0);
  }
}

// The second replay finds out that frames of the first one did not leave.
TEST_F(PlayerTest, FramesLostInAnEarlierReplayDoNotUnderflow) {
  class Late final : public Recorder {
   public:
    WireResult<bool> flush(std::int64_t) override {
      if (fails) lost = 20;
      return true;
    }
    bool fails = false;
  };
  PlayerOptions options;
  options.files = {requests(10)};
  Late wire;
  EXPECT_EQ(run(options, wire).sent, 10U);
  wire.fails = true;
  const ReplayReport report = run(options, wire);
  EXPECT_EQ(report.sent, 0U);
  EXPECT_EQ(report.bytes, 0U);
}

// The device accepted all ten frames and failed while it sent the eighth.
TEST_F(PlayerTest, FailedCompletionNamesFirstFrameThatWasNotSent) {
  class Failing final : public Recorder {
   public:
    WireResult<bool> flush(std::int64_t) override {
      return tl::unexpected(WireError{WireError::Kind::system, 0, "recorder: work request 8 of 10 failed"});
    }
  };
  PlayerOptions options;
  options.files = {requests(12)};
  options.exclude = output::Filter::compile("bth.psn < 102").value();
  Failing wire;
  wire.lost = 3;
  EXPECT_EQ(run(options, wire).trouble,
            "recorder: work request 8 of 10 failed (first unsent frame of the capture: 10)");
}

TEST_F(PlayerTest, OtherPathMtuResegmentsMessages) {
  PlayerOptions options;
  options.files = {sample("rping.pcap")};
  options.map = testing::learn(options.files[0]).map;
  options.map.connections[0].mtu.live = 256;
  options.map.connections[0].at(Side::a).psn.live = 1;
  options.rewrite.others = Unmapped::keep;
  Recorder wire;
  const ReplayReport report = run(options, wire);
  EXPECT_EQ(report.trouble, "");
  EXPECT_EQ(report.skip(Skip::recut).frames, 0U);
  std::uint64_t largest = 0, rdma = 0;
  for (const auto& entry : wire.entries) {
    const HeaderStack stack = decode(entry.frame);
    if (!stack.get<Bth>() || stack.get<Bth>()->get<"dest_qp">() == 1) continue;
    ++rdma;
    largest = std::max<std::uint64_t>(largest, stack.payload.length);
    EXPECT_EQ(check_icrc(stack).status, CrcCheck::Status::good);
  }
  EXPECT_EQ(largest, 256U);
  EXPECT_GT(rdma, 379U);
  options.changes.psns = {{1, 1}};
  EXPECT_THAT(run(options, wire).trouble, HasSubstr("another path MTU"));
}

TEST_F(PlayerTest, FullQueueEndsReplayAfterPatience) {
  PlayerOptions options;
  options.files = {requests(10)};
  options.patience = 1'000'000;
  options.pace.kind = Pace::Kind::top;
  Recorder wire(true);
  wire.full_after = 3;
  const ReplayReport report = run(options, wire);
  EXPECT_EQ(report.sent, 3U);
  EXPECT_THAT(report.trouble, HasSubstr("the queue has been full"));
}

TEST_F(PlayerTest, InterruptedReplayReturnsReport) {
  std::atomic<bool> stop = false;
  PlayerOptions options;
  options.files = {requests(100)};
  options.stop = &stop;
  options.on_frame = [&](const PlayedFrame& frame) { stop = frame.number == 42; };
  Recorder wire;
  const ReplayReport report = run(options, wire);
  EXPECT_TRUE(report.interrupted);
  EXPECT_EQ(report.trouble, "");
  EXPECT_EQ(report.sent, wire.entries.size());
  EXPECT_EQ(report.sent, 42U);
}

/// Report without values that depend on the speed of the host.
nlohmann::json without_times(const ReplayReport& report) {
  auto json = nlohmann::json::parse(to_json(report));
  for (const char* time : {"achieved", "lateness", "requested"}) json.erase(time);
  return json;
}

TEST_F(PlayerTest, PrefetchedReplayIsIdentical) {
  const std::vector<std::function<void(PlayerOptions&, Recorder&)>> ways = {
      [](PlayerOptions&, Recorder&) {},
      [](PlayerOptions& o, Recorder&) { o.most_frames = 1777; },
      [](PlayerOptions& o, Recorder&) { o.max_bytes = 100'000; },
      [](PlayerOptions& o, Recorder&) {
        o.changes.psns = {{700, 0}};
      },
      [](PlayerOptions& o, Recorder&) { o.include = output::Filter::compile("bth.psn < 103").value(); },
      [](PlayerOptions& o, Recorder&) { o.faults = FaultProgram::compile("duplicate every 5").value(); },
      [](PlayerOptions& o, Recorder& wire) {
        o.faults = FaultProgram::compile("drop psn +3").value();
        wire.down_after = 1001;
      },
      [](PlayerOptions&, Recorder& wire) { wire.down_after = 6; },
      [](PlayerOptions&, Recorder& wire) { wire.capabilities_.max_bytes = 60; },
      [](PlayerOptions& o, Recorder&) {
        o.pace = {Pace::Kind::packets, 200'000};
      },
      [this](PlayerOptions& o, Recorder&) {  // the third frame belongs to an unmapped connection
        o.files = {capture("wrong.pcapng", {{begin, frames::request(100)},
                                            {begin + 1, frames::request(101)},
                                            {begin + 2, frames::packet(true, send_only, 5, 0x99)}})};
      },
  };
  for (std::size_t way = 0; way < ways.size(); ++way) {
    PlayerOptions options;
    options.files = {requests(700)};
    options.map = map_of_frames();
    options.pace.kind = Pace::Kind::top;
    options.loops = 5;
    Recorder ahead(true), alone(true);
    ways[way](options, ahead);
    ways[way](options, alone);
    options.patience = 1'000'000;
    const ReplayReport report = run(options, ahead);
    options.ahead = false;
    EXPECT_EQ(without_times(report), without_times(run(options, alone))) << way;
    ASSERT_EQ(ahead.entries.size(), alone.entries.size()) << way;
    for (std::size_t i = 0; i < ahead.entries.size(); ++i)
      ASSERT_EQ(ahead.entries[i].frame, alone.entries[i].frame) << way << ", frame " << i;
  }
}

TEST_F(PlayerTest, InterruptedPrefetchedReplayEnds) {
  std::atomic<bool> stop = false;
  PlayerOptions options;
  options.files = {requests(100)};
  options.pace.kind = Pace::Kind::top;
  options.loops = 0;
  options.stop = &stop;
  options.progress_every = 0;
  options.progress = [&](const PlayProgress& progress) { stop = progress.sent >= 1000; };
  Recorder wire(true);
  const ReplayReport report = run(options, wire);
  EXPECT_TRUE(report.interrupted);
  EXPECT_EQ(report.trouble, "");
  EXPECT_EQ(report.sent, wire.entries.size());
  EXPECT_GE(report.sent, 1000U);
  EXPECT_EQ(report.read, report.sent) << "prefetched frames are not counted";
}

TEST_F(PlayerTest, ProgressReportsSentFrames) {
  PlayerOptions options;
  options.files = {requests(20)};
  options.progress_every = 0;
  std::vector<std::uint64_t> reported;
  std::uint64_t whole = 0;
  options.progress = [&](const PlayProgress& progress) {
    reported.push_back(progress.sent);
    whole = progress.whole;
  };
  Recorder wire;
  run(options, wire);
  ASSERT_EQ(reported.size(), 5U) << "after each batch of four";
  EXPECT_EQ(reported.front(), 4U);
  EXPECT_EQ(reported.back(), 20U);
  EXPECT_EQ(whole, std::filesystem::file_size(options.files[0]));
}

TEST_F(PlayerTest, StepCallbackIsCalledBeforeEachFrame) {
  PlayerOptions options;
  options.files = {requests(10)};
  int asked = 0;
  options.step = [&] { return ++asked <= 3; };
  Recorder wire;
  const ReplayReport report = run(options, wire);
  EXPECT_EQ(asked, 4);
  EXPECT_EQ(report.sent, 3U);
  EXPECT_TRUE(report.interrupted);
}

TEST_F(PlayerTest, UnmappedFrameIsRefusedWithItsNumber) {
  PlayerOptions options;
  options.files = {capture("wrong.pcapng", {{begin, frames::request(100)},
                                            {begin + 5, frames::packet(true, send_only, 5, 0x99)},
                                            {begin + 9, frames::request(101)}})};
  options.map = map_of_frames();
  Recorder wire;
  const ReplayReport report = run(options, wire);
  EXPECT_EQ(report.trouble, "frame 2: 10.0.0.2 → 10.0.0.3 QP 0x99: the connection has no mapping");
  EXPECT_EQ(report.sent, 1U);
  options.rewrite.unmapped = Unmapped::drop;
  Recorder dropping;
  const ReplayReport dropped = run(options, dropping);
  EXPECT_EQ(dropped.sent, 2U);
  EXPECT_EQ(dropped.skip(Skip::unmapped).frames, 1U);
  EXPECT_EQ(dropped.skip(Skip::unmapped).first_frame, 2U);
}

TEST_F(PlayerTest, TruncatedCaptureFileIsReplayedUpToItsEnd) {
  const std::string path = requests(10);
  std::filesystem::resize_file(path, std::filesystem::file_size(path) - 10);
  PlayerOptions options;
  options.files = {path};
  Recorder wire;
  const ReplayReport report = run(options, wire);
  EXPECT_EQ(report.sent, 9U);
  EXPECT_THAT(report.trouble, HasSubstr("requests.pcapng"));
}

TEST_F(PlayerTest, TruncatedFramesAreSkippedPaddedOrSent) {
  ByteVector cut = frames::request(100);
  const auto whole = static_cast<std::uint32_t>(cut.size());
  cut.resize(whole - 6);
  PlayerOptions options;
  options.files = {capture("cut.pcapng", {{begin, cut, whole}})};
  Recorder skipping;
  const ReplayReport skipped = run(options, skipping);
  EXPECT_EQ(skipped.sent, 0U);
  EXPECT_EQ(skipped.skip(Skip::snapped).frames, 1U);
  EXPECT_EQ(skipped.unable(), 1U);
  options.snapped = PlayerOptions::Snapped::pad;
  Recorder padding;
  EXPECT_EQ(run(options, padding).padded, 1U);
  ASSERT_EQ(padding.entries.size(), 1U);
  EXPECT_EQ(padding.entries[0].frame.size(), whole);
  EXPECT_EQ(check_icrc(decode(padding.entries[0].frame)).status, CrcCheck::Status::good);
  options.snapped = PlayerOptions::Snapped::send;
  Recorder sending;
  run(options, sending);
  ASSERT_EQ(sending.entries.size(), 1U);
  EXPECT_EQ(sending.entries[0].frame, cut);
}

TEST_F(PlayerTest, FramesTooLongForWireAreRefusedOrTruncated) {
  PlayerOptions options;
  options.files = {requests(2)};
  Recorder narrow;
  narrow.capabilities_.max_bytes = 60;
  const ReplayReport report = run(options, narrow);
  EXPECT_EQ(report.sent, 0U);
  EXPECT_EQ(report.skip(Skip::too_long).frames, 2U);
  EXPECT_EQ(report.skip(Skip::too_long).example, "66 bytes, the maximum of the wire is 60");
  options.too_long = PlayerOptions::TooLong::truncate;
  EXPECT_EQ(run(options, narrow).truncated, 2U);
  EXPECT_EQ(narrow.entries[0].frame.size(), 60U);
}

TEST_F(PlayerTest, GroupAddressesRequirePermission) {
  ByteVector broadcast = frames::request(100);
  std::fill_n(broadcast.begin(), 6, std::uint8_t{0xff});
  PlayerOptions options;
  options.files = {capture("group.pcapng", {{begin, broadcast}, {begin + 1, frames::request(101)}})};
  options.allow_groups = false;
  Recorder wire;
  const ReplayReport report = run(options, wire);
  EXPECT_EQ(report.sent, 1U);
  EXPECT_EQ(report.skip(Skip::group).frames, 1U);
}

TEST_F(PlayerTest, FilesAreMergedByTime) {
  PlayerOptions options;
  options.files = {capture("1.pcapng", {{begin, frames::request(1)}, {begin + 20, frames::request(3)}}),
                   capture("2.pcapng", {{begin + 10, frames::request(2)}, {begin + 30, frames::request(4)}})};
  Recorder wire;
  run(options, wire);
  EXPECT_THAT(wire.psns(), ElementsAre(1, 2, 3, 4));
  EXPECT_THAT(wire.times(), ElementsAre(begin, begin + 10, begin + 20, begin + 30));

  options.lanes = PlayerOptions::Lanes::by_file;
  Recorder first, second;
  Wire* const wires[] = {&first, &second};
  const ReplayReport report = play(options, wires);
  EXPECT_THAT(first.psns(), ElementsAre(1, 3));
  EXPECT_THAT(second.psns(), ElementsAre(2, 4));
  EXPECT_EQ(report.sent, 4U);
}

TEST_F(PlayerTest, EndpointsCanUseSeparateWires) {
  PlayerOptions options;
  options.files = {capture("both.pcapng", {{begin, frames::request(100)}, {begin + 10, frames::answer(100)}})};
  options.map = map_of_frames();
  options.lanes = PlayerOptions::Lanes::by_end;
  Recorder client, server;
  Wire* const wires[] = {&client, &server};
  const ReplayReport report = play(options, wires);
  EXPECT_EQ(report.trouble, "");
  EXPECT_THAT(client.psns(), ElementsAre(7));
  EXPECT_THAT(server.psns(), ElementsAre(7));
  EXPECT_EQ(decode(server.entries[0].frame).get<Bth>()->get<"opcode">(), 0x11);
}

FaultProgram program(std::string_view text) { return FaultProgram::compile(text).value(); }

TEST_F(PlayerTest, FaultsAreInjectedAndCounted) {
  PlayerOptions options;
  options.files = {requests(6)};
  options.faults = program("drop psn +1 try 1\nduplicate psn +3\ndelay 2500ns psn +2");
  Recorder wire;
  const ReplayReport report = run(options, wire);
  EXPECT_THAT(wire.psns(), ElementsAre(100, 103, 103, 104, 102, 105));
  EXPECT_EQ(wire.times()[4], begin + 2000 + 2500);
  ASSERT_EQ(report.faults.size(), 3U);
  EXPECT_EQ(report.faults[0].text, "drop psn +1 try 1");
  EXPECT_EQ(report.faults[0].count.done, 1U);
  EXPECT_EQ(report.sent, 6U);
}

TEST_F(PlayerTest, HeldFramesAreSentAtEnd) {
  PlayerOptions options;
  options.files = {requests(3)};
  options.faults = program("hold 5 within 10s psn +1");
  Recorder wire;
  run(options, wire);
  EXPECT_THAT(wire.psns(), ElementsAre(100, 102, 101));
}

TEST_F(PlayerTest, DryRunShowsFramesWithoutSending) {
  PlayerOptions options;
  options.files = {requests(3)};
  options.map = map_of_frames();
  options.dry = true;
  std::vector<std::string> shown;
  options.on_frame = [&](const PlayedFrame& frame) {
    for (const FieldChange& change : differences(frame.captured, decode(frame.frame)))
      shown.push_back(to_string(change));
  };
  Recorder wire;
  const ReplayReport report = run(options, wire);
  EXPECT_EQ(report.sent, 0U);
  EXPECT_TRUE(wire.entries.empty());
  ASSERT_EQ(shown.size(), 9U);
  EXPECT_EQ(shown[0], "bth.dest_qp 0x11 → 0x888");
  EXPECT_EQ(shown[1], "bth.psn 100 → 7");
  EXPECT_THAT(shown[2], HasSubstr("icrc 0x"));
}

TEST_F(PlayerTest, RealWireReceivesFramesInOrder) {
  auto [here, there] = make_wire_pair();
  PlayerOptions options;
  options.files = {requests(20)};
  options.pace = {Pace::Kind::packets, 100'000};
  Wire* const wires[] = {here.get()};
  const ReplayReport report = play(options, wires);
  EXPECT_EQ(report.sent, 20U);
  EXPECT_TRUE(report.timed);
  EXPECT_EQ(report.requested, 190'000);
  EXPECT_EQ(report.lateness.count(), 20U);
  for (std::uint32_t psn = 100; psn < 120; ++psn) {
    const auto received = there->receive(there->now() + 10'000'000'000).value();
    ASSERT_TRUE(received) << psn;
    EXPECT_EQ(decode(received->frame).get<Bth>()->get<"psn">(), psn);
  }
}

TEST_F(PlayerTest, DeletedInterfaceIsReportedAsError) {
  std::string why_not;
  const auto namespaces = testing::Namespaces::make(why_not);
  if (!namespaces) GTEST_SKIP() << why_not;
  auto wire = open_wire("packet:here");
  ASSERT_TRUE(wire) << wire.error().message;
  PlayerOptions options;
  options.files = {requests(100)};
  options.loops = 0;
  options.pace = {Pace::Kind::packets, 20'000};
  bool deleted = false;
  options.on_frame = [&](const PlayedFrame& frame) {
    if (frame.loop == 20 && !deleted) deleted = namespaces->run("ip link delete here");
  };
  options.most_frames = 1'000'000;
  Wire* const wires[] = {wire->get()};
  const ReplayReport report = play(options, wires);
  EXPECT_TRUE(deleted);
  EXPECT_THAT(report.trouble, HasSubstr("packet:here"));
  // The counters of the interface are gone, so that frames that may not have left do not count as sent.
  EXPECT_GT(report.lanes.at(0).frames, 0U);
  EXPECT_LE(report.sent, 20U * 100);
  EXPECT_EQ(report.sent, wire->get()->counters().sent);
}

// The times are the kernel's receive timestamps. Other processes often interrupt the sender.
TEST_F(PlayerTest, RateCapHoldsInAnyTenMilliseconds) {
  std::string why_not;
  const auto namespaces = testing::Namespaces::make(why_not);
  if (!namespaces) GTEST_SKIP() << why_not;
  ASSERT_TRUE(
      namespaces->run("ip link add near type veth peer name far && sysctl -qw net.ipv6.conf.near.disable_ipv6=1 "
                      "net.ipv6.conf.far.disable_ipv6=1 && ip link set near up && ip link set far up") &&
      namespaces->run(testing::Namespaces::until_up("near")) && namespaces->run(testing::Namespaces::until_up("far")));
  auto near = open_wire("packet:near").value();
  const auto far = open_wire("packet:far,incoming").value();
  PlayerOptions options;
  options.files = {requests(100)};
  options.loops = 0;
  options.pace = {Pace::Kind::top};
  options.rate_cap = 200'000'000;
  options.most_time = 300'000'000;
  std::atomic<bool> over = false;
  std::vector<std::pair<std::int64_t, std::uint64_t>> received;
  std::thread receiver([&] {
    while (!over)
      if (const auto got = far->receive(far->now() + 20'000'000); got && *got)
        received.emplace_back((*got)->time, (*got)->frame.size());
  });
  Wire* const wires[] = {near.get()};
  const ReplayReport report = play(options, wires);
  over = true;
  receiver.join();
  EXPECT_EQ(report.trouble, "");
  EXPECT_GT(received.size(), 100U);
  const auto most_in = [&](std::int64_t period) {
    std::uint64_t most = 0, sum = 0;
    for (std::size_t end = 0, first = 0; end < received.size(); ++end) {
      sum += received[end].second;
      while (received[end].first - received[first].first >= period) sum -= received[first++].second;
      most = std::max(most, sum);
    }
    return most;
  };
  EXPECT_LE(most_in(10'000'000), 250'000U);
  EXPECT_LE(most_in(1'000'000), 37'500U + 2000U) << "1 ms and the burst of 0.5 ms, and one frame";
}

class SamplePlayer : public ::testing::TestWithParam<std::string> {
 protected:
  TemporaryDirectory directory_;
};

TEST_P(SamplePlayer, FileToFileWithoutRewriteIsIdentical) {
  const std::string path = sample(GetParam()), copy = directory_.file("copy.pcapng");
  auto wire = open_wire("file:" + copy).value();
  PlayerOptions options;
  options.files = {path};
  Wire* const wires[] = {wire.get()};
  const ReplayReport report = play(options, wires);
  EXPECT_EQ(report.trouble, "");
  wire->close();
  auto before = captures::testing_support::read_all(captures::Reader::open(path));
  const auto after = captures::testing_support::read_all(captures::Reader::open(copy));
  // A file wire has one link type. Frames with other link types are converted, or counted as skipped.
  const auto others = std::erase_if(before.packets, [](const auto& packet) {
    return packet.link != LinkType::ethernet && !LinkConversion::supports(packet.link);
  });
  EXPECT_EQ(report.skip(Skip::link).frames, others);
  ASSERT_EQ(after.packets.size(), before.packets.size());
  EXPECT_EQ(report.sent, after.packets.size());
  for (std::size_t i = 0; i < after.packets.size(); ++i) {
    if (before.packets[i].link == LinkType::ethernet) {
      ASSERT_EQ(after.packets[i].bytes, before.packets[i].bytes) << i;
    }
    ASSERT_EQ(after.packets[i].time, before.packets[i].time) << i;
  }
}

TEST_P(SamplePlayer, RewrittenCaptureHasSameConnections) {
  const std::string path = sample(GetParam()), copy = directory_.file("copy.pcapng");
  PlayerOptions options;
  options.files = {path};
  options.map = testing::learn(path).map;
  testing::invent_live(options.map, 5);
  options.rewrite.unmapped = options.rewrite.others = Unmapped::keep;
  auto wire = open_wire("file:" + copy).value();
  Wire* const wires[] = {wire.get()};
  const ReplayReport report = play(options, wires);
  EXPECT_EQ(report.trouble, "");
  wire->close();
  const Learnt live = testing::learn(copy);
  std::uint64_t bad = 0;
  tracking::testing::dissect_capture(
      path, [&](const tracking::Packet& packet) { bad += packet.icrc.status == CrcCheck::Status::bad; });
  EXPECT_EQ(live.bad_icrcs, bad) << "valid ICRCs stay valid";
  std::size_t found = 0;
  for (const MappedConnection& wanted : options.map.connections)
    for (const MappedConnection& c : live.map.connections)
      found += c.at(Side::a).qp.captured == wanted.at(Side::a).qp.live &&
               c.at(Side::b).qp.captured == wanted.at(Side::b).qp.live &&
               c.at(Side::a).address.captured == wanted.at(Side::a).address.live;
  EXPECT_EQ(found, GetParam() == "linlinw5-uc-pingpong.pcap" || GetParam() == "two-interfaces.pcapng"
                       ? found
                       : options.map.connections.size());
}

std::vector<std::string> samples() {
  std::vector<std::string> all;
  for (const auto& entry : std::filesystem::directory_iterator(sample("")))
    if (entry.path().filename().string().find(".pcap") != std::string::npos) all.push_back(entry.path().filename());
  std::sort(all.begin(), all.end());
  return all;
}
INSTANTIATE_TEST_SUITE_P(Captures, SamplePlayer, ::testing::ValuesIn(samples()), [](const auto& parameter) {
  std::string name = parameter.param;
  for (char& c : name)
    if (!std::isalnum(static_cast<unsigned char>(c))) c = '_';
  return name;
});

TEST(ReplayReport, TextListsTenConnectionsAndSum) {
  ReplayReport report;
  for (std::uint64_t i = 1; i <= 10'000; ++i)
    report.flows.push_back({"connection " + std::to_string(i), "x ↔ y", {2, 1}, {200, 100}});
  const std::string text = to_text(report);
  EXPECT_THAT(text, HasSubstr("connection 10  x ↔ y: 2 and 1 frames\n"
                              "and 9990 more connections: 19980 and 9990 frames (--json lists all)\n"));
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 12);
  EXPECT_EQ(nlohmann::json::parse(to_json(report))["connections"].size(), 10'000U);
}

TEST(ReplayReport, JsonContainsSameValuesAsText) {
  ReplayReport report;
  report.sent = 5;
  report.bytes = 500;
  report.timed = report.waited = true;
  report.requested = 1'000'000;
  report.achieved = 1'000'500;
  report.lateness.add(500);
  report.skip(Skip::snapped) = {2, 7, "64 of 1082 bytes"};
  report.trouble = "packet:x: gone";
  report.faults.push_back({"drop nth 1", {1, 1, 0}});
  report.chance = true;
  report.fault_seed = 9;
  const auto json = nlohmann::json::parse(to_json(report));
  EXPECT_EQ(json["sent"]["frames"], 5);
  EXPECT_EQ(json["requested"]["nanoseconds"], 1'000'000);
  EXPECT_EQ(json["requested"]["frames_per_second"], 5000.0);
  EXPECT_EQ(json["lateness"]["max"], 500);
  EXPECT_EQ(json["skipped"]["snapped"]["first_frame"], 7);
  EXPECT_EQ(json["error"], "packet:x: gone");
  EXPECT_EQ(json["seed"], 9);
  EXPECT_FALSE(json["skipped"].contains("group"));
}

}  // namespace
}  // namespace rdmawire::replay
