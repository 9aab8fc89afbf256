/// The result of a distributed analysis must equal that of a single run.

#include "captures/analysis/partition.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <memory>

#include "captures/analysis/archive.hpp"
#include "captures/io/reader.hpp"
#include "captures/io/writer.hpp"
#include "dissectors/protocol/time.hpp"
#include "source_directory.hpp"

namespace rdmawire::captures::analysis {
namespace {

using ::testing::HasSubstr;

Bytes bytes_of(const std::string& text) { return {reinterpret_cast<const std::uint8_t*>(text.data()), text.size()}; }

std::vector<std::string> samples() {
  std::vector<std::string> files;
  for (const auto& entry : std::filesystem::directory_iterator(RDMAWIRE_SOURCE_DIR "/captures/samples"))
    if (entry.path().string().find(".pcap") != std::string::npos) files.push_back(entry.path());
  std::sort(files.begin(), files.end());
  return files;
}

/// Options of a distributed run, without its files.
struct Asked {
  std::string from{}, to{};
  const output::Filter* filter = nullptr;
  std::uint64_t connection = 0;
};

/// The batches of all files in order, by shard.
using Batches = std::vector<std::vector<std::string>>;

Batches filter_shards(const Batches& batches, const RunOptions& options, tracking::Moment& last) {
  Batches filtered(batches.size());
  for (unsigned shard = 0; shard < batches.size(); ++shard) {
    ShardFilter shard_filter(options, shard, static_cast<unsigned>(batches.size()));
    for (const std::string& batch : batches[shard]) EXPECT_TRUE(shard_filter.add(bytes_of(batch)));
    last = last.later(shard_filter.last());
    const auto theirs = shard_filter.finish();
    for (std::size_t other = 0; other < theirs.size(); ++other) filtered[other].push_back(theirs[other]);
  }
  return filtered;
}

/// Tracks a shard. If `narrow` is set, counts only packets between its endpoints.
Analysis track(ShardTracker& tracker, const std::vector<std::string>& batches, const std::vector<std::string>& filtered,
               const tracking::Moment& last, const std::optional<Connection>& narrow) {
  const std::vector<Bytes> filtered_views = [&] {
    std::vector<Bytes> views;
    for (const std::string& one : filtered) views.push_back(bytes_of(one));
    return views;
  }();
  tracker.add_filtered(filtered_views);
  if (narrow) tracker.narrow_to(narrow->ends[0].address, narrow->ends[1].address);
  for (const std::string& batch : batches) {
    const auto added = tracker.add(bytes_of(batch));
    EXPECT_TRUE(added) << added.error();
  }
  return tracker.finish(last);
}

/// Returns the report of a distributed run. Files are divided into portions of `portion_frames` frames, and all data
/// that processes exchange is serialized.
Json divided(const std::vector<std::string>& names, unsigned shards, std::uint64_t portion_frames,
             const Asked& asked = {}) {
  std::vector<Survey> surveys;
  for (const std::string& name : names) surveys.push_back(survey(name).value());
  std::stable_sort(surveys.begin(), surveys.end(),
                   [](const Survey& a, const Survey& b) { return a.start_time < b.start_time; });
  const std::int64_t origin = surveys.front().start_time;
  Input input;
  input.memory = default_memory;
  Overlaps overlaps;
  Batches batches(shards);
  tracking::Moment last;
  std::uint64_t before = 0;
  for (const Survey& file : surveys) {
    Portion portion{file.facts.name, 1, 0, before, {}, {}};
    if (!asked.from.empty()) portion.begin = Boundary::parse(asked.from)->from_origin(origin);
    if (!asked.to.empty()) portion.end = Boundary::parse(asked.to)->from_origin(origin);
    for (; portion.from <= file.facts.packets; portion.from = portion.to + 1) {
      portion.to = std::min(file.facts.packets, portion.from + portion_frames - 1);
      const auto cut = divide(portion, shards, 0, asked.filter != nullptr).value();
      EXPECT_EQ(cut.batches.size(), shards);
      last = last.later(cut.last);
      for (unsigned shard = 0; shard < shards; ++shard) batches[shard].push_back(cut.batches[shard]);
    }
    input.files.push_back(file.facts);
    if (input.files.back().packets) input.files.back().first_frame = before + 1;
    before += file.facts.packets;
    overlaps.packet(file.first_time);
    overlaps.packet(file.last_time);
    input.overlapping_files += overlaps.end_of_file();
  }
  RunOptions options;
  options.filter = asked.filter;
  options.connection = input.connection = asked.connection;
  if (asked.filter) input.filter = asked.filter->text();
  const Batches filtered = asked.filter ? filter_shards(batches, options, last) : Batches(shards);
  std::optional<Connection> wanted;
  for (unsigned shard = 0; asked.connection && shard < shards; ++shard) {
    ShardTracker tracker(options);
    static_cast<void>(track(tracker, batches[shard], filtered[shard], last, std::nullopt));
    if (tracker.wanted()) wanted = tracker.wanted();
  }
  std::optional<Analysis> whole;
  for (unsigned shard = 0; shard < shards; ++shard) {
    ShardTracker tracker(options);
    const std::string saved = save(track(tracker, batches[shard], filtered[shard], last, wanted));
    input.evicted_packets += tracker.evicted_packets();
    Analysis part = load(bytes_of(saved)).value();
    if (whole)
      whole->merge(part);
    else
      whole = std::move(part);
  }
  return report_of(*whole, input);
}

TEST(Partition, ShardsAndPortionsEqualSingleRun) {
  RunOptions options;
  options.files = samples();
  ASSERT_GT(options.files.size(), 15U);
  const RunResult result = run(options);
  const Json one = report_of(result.analysis, result.input);
  for (const auto& [shards, portion] : {std::pair{1U, std::uint64_t{1} << 40},
                                        {3U, std::uint64_t{1000}},
                                        {7U, std::uint64_t{333}},
                                        {64U, std::uint64_t{1} << 40}}) {
    const Json many = divided(options.files, shards, portion);
    EXPECT_TRUE(many == one) << shards << " shards: " << Json::diff(one, many).dump().substr(0, 2000);
  }
}

TEST(Partition, EachSampleEqualsSingleRun) {
  for (const std::string& name : samples()) {
    RunOptions options;
    options.files = {name};
    const RunResult result = run(options);
    const Json one = report_of(result.analysis, result.input);
    const Json many = divided({name}, 4, 100);
    EXPECT_TRUE(many == one) << name << ": " << Json::diff(one, many).dump().substr(0, 1000);
  }
}

TEST(Partition, BoundariesApplyToTheCompleteCapture) {
  RunOptions options;
  options.files = {RDMAWIRE_SOURCE_DIR "/captures/samples/rping.pcap"};
  options.from = *Boundary::parse("3.25");
  options.to = *Boundary::parse("frame:200");
  const RunResult result = run(options);
  const Json one = report_of(result.analysis, result.input);
  ASSERT_LT(one.at("summary").at("packets").get<int>(), 200);
  const Json many = divided(options.files, 3, 50, {"3.25", "frame:200"});
  EXPECT_TRUE(many == one) << Json::diff(one, many).dump().substr(0, 1000);
}

// Filters that depend only on the packet, on its TCP connection or on its QP, and a filter that removes most of the
// text that programs exchange.
TEST(Partition, FilteredShardsEqualSingleRun) {
  for (const char* expression :
       {"bth", "not aeth", "rdmap or bth.opcode == 4", "upper == nvme or note contains \"retransmission\"",
        "tcp or bth.psn > 1000000", "frame.len < 200"}) {
    const auto filter = output::Filter::compile(expression);
    ASSERT_TRUE(filter) << expression;
    RunOptions options;
    options.files = samples();
    options.filter = &*filter;
    const RunResult result = run(options);
    const Json one = report_of(result.analysis, result.input);
    EXPECT_GT(one.at("summary").at("packets").get<int>(), 0) << expression;
    const Json many = divided(options.files, 7, 333, {.filter = &*filter});
    EXPECT_TRUE(many == one) << expression << ": " << Json::diff(one, many).dump().substr(0, 2000);
  }
}

// How long a request was outstanding depends on the end of the capture, and not on the end of the shard.
TEST(Partition, OutstandingTimeEndsWithTheCapture) {
  const std::string path = testing::TempDir() + "partition_test." + std::to_string(::getpid()) + ".pcap";
  {
    Writer writer = Writer::create(path).value();
    ASSERT_TRUE(writer.add_interface({}));
    const auto filter = output::Filter::compile("not aeth and not opcode.direction == response").value();
    std::int64_t shift = 0, latest = 0;
    for (const char* name : {"rc-read-loss.pcap.zst", "nvme-over-rdma.pcap.zst"}) {
      Reader reader = Reader::open(RDMAWIRE_SOURCE_DIR "/captures/samples/" + std::string(name)).value();
      tracking::Dissector dissector;
      tracking::Packet packet;
      bool first = true;
      for (Record record; reader.next(record) == Next::record;) {
        packet.number = record.number;
        packet.time_ns = record.time;
        packet.link = record.link;
        dissector.dissect(packet, record.bytes, record.wire_length);
        if (!filter.matches(packet)) continue;
        if (first && latest) shift = latest - record.time + 60'000'000'000;
        first = false;
        record.time += shift;
        latest = record.time;
        // Change the addresses of the second capture, so that its endpoint pairs differ.
        std::vector<std::uint8_t> bytes(record.bytes.begin(), record.bytes.end());
        if (shift && bytes.size() > 30) bytes[28] = bytes[32] = 99;
        record.bytes = bytes;
        record.interface = 0;
        ASSERT_TRUE(writer.write(record));
      }
    }
    ASSERT_TRUE(writer.close());
  }
  RunOptions options;
  options.files = {path};
  const RunResult alone = run(options);
  const Json one = report_of(alone.analysis, alone.input);
  EXPECT_GT(one.at("summary").at("events").value("unanswered", 0), 0);
  options.threads = 5;
  options.parallel_from = 0;
  const RunResult threads = run(options);
  EXPECT_EQ(report_of(threads.analysis, threads.input), one);
  EXPECT_EQ(divided({path}, 5, 100), one);
  std::filesystem::remove(path);
}

TEST(Partition, OneConnectionEqualsSingleRun) {
  for (const char* name : {"rc-read-loss.pcap.zst", "siw-write-loss.pcap.gz", "rping.pcap"}) {
    RunOptions options;
    options.files = {RDMAWIRE_SOURCE_DIR "/captures/samples/" + std::string(name)};
    const RunResult all = run(options);
    const Json ids = report_of(all.analysis, all.input).at("connections");
    ASSERT_FALSE(ids.empty()) << name;
    const auto filter = output::Filter::compile("not aeth");
    for (const output::Filter* also : {static_cast<const output::Filter*>(nullptr), &*filter}) {
      options.connection = ids.back().at("connection").get<std::uint64_t>();
      options.filter = also;
      const RunResult result = run(options);
      if (!result.errors.empty()) continue;  // the filter removes the whole connection
      const Json one = report_of(result.analysis, result.input);
      const Json many = divided(options.files, 5, 100, {.filter = also, .connection = options.connection});
      EXPECT_TRUE(many == one) << name << ": " << Json::diff(one, many).dump().substr(0, 1000);
    }
  }
}

TEST(Partition, ReportsInvalidInput) {
  EXPECT_THAT(survey("/nowhere/x.pcap").error(), HasSubstr("/nowhere/x.pcap"));
  const std::string name = RDMAWIRE_SOURCE_DIR "/captures/samples/rping.pcap";
  EXPECT_THAT(divide({name, 1, 1'000'000, 0, {}, {}}, 2).error(), HasSubstr("when it was surveyed"));
  const auto batches = divide({name, 1, UINT64_MAX, 0, {}, {}}, 1).value().batches;
  for (std::size_t bytes = 1; bytes < 400; ++bytes) {
    ShardTracker tracker{RunOptions{}};
    const auto added = tracker.add(bytes_of(batches[0]).first(bytes));
    if (!added) {
      EXPECT_THAT(added.error(), HasSubstr("malformed batch of frames at byte"));
    }
    tracker.finish({});
  }
  ShardTracker tracker{RunOptions{}};
  EXPECT_FALSE(tracker.add(bytes_of("invalid data that is longer than an item")));
}

// Data from other processes may be damaged. Its times are limited to the range of the tracker.
TEST(Partition, InvalidTimesAreLimited) {
  for (const char* name : {"rping.pcap", "siw-write-loss.pcap.gz"}) {
    const std::string path = RDMAWIRE_SOURCE_DIR "/captures/samples/" + std::string(name);
    std::string batch = divide({path, 1, UINT64_MAX, 0, {}, {}}, 1).value().batches[0];
    Reader reader = Reader::open(path).value();
    std::int64_t made_up = INT64_MIN;
    int replaced = 0;
    for (Record record; reader.next(record) == Next::record; made_up = -1 - made_up) {
      const auto bytes_of = [](const std::int64_t& time) {
        return std::string_view(reinterpret_cast<const char*>(&time), sizeof time);
      };
      if (const auto at = batch.find(bytes_of(record.time)); at != std::string::npos) {
        batch.replace(at, sizeof made_up, bytes_of(made_up));
        ++replaced;
      }
    }
    ASSERT_GT(replaced, 100) << name;
    ShardTracker tracker{RunOptions{}};
    EXPECT_TRUE(tracker.add(bytes_of(batch)));
    const Analysis analysis = tracker.finish({});
    EXPECT_EQ(analysis.first_time, -farthest_time) << name;
    EXPECT_EQ(analysis.last_time, farthest_time) << name;
  }
}

TEST(Archive, RoundTripPreservesTheReport) {
  RunOptions options;
  options.files = {RDMAWIRE_SOURCE_DIR "/captures/samples/nvme-over-rdma.pcap.zst",
                   RDMAWIRE_SOURCE_DIR "/captures/samples/siw-write-loss.pcap.gz"};
  RunResult result = run(options);
  const Json before = report_of(result.analysis, result.input);
  ASSERT_THAT(before.dump(), HasSubstr("NVMe"));  // a string literal, which the archive must contain
  std::optional<Analysis> loaded;
  {
    const std::string saved = save(result.analysis);
    loaded = load(bytes_of(saved)).value();
  }
  result.analysis = Analysis();
  EXPECT_EQ(report_of(*loaded, result.input), before);
}

TEST(Archive, RejectsInvalidData) {
  EXPECT_THAT(load({}).error(), HasSubstr("not a saved analysis"));
  EXPECT_THAT(load(bytes_of("rdmawire analysis 0.0.0 1 2 3\n")).error(), HasSubstr("different rdmawire build"));
  RunOptions options;
  options.files = {RDMAWIRE_SOURCE_DIR "/captures/samples/rping.pcap"};
  const std::string saved = save(run(options).analysis);
  for (std::size_t bytes = 0; bytes < saved.size(); bytes += 97)
    EXPECT_FALSE(load(bytes_of(saved).first(bytes))) << bytes;
  EXPECT_THAT(load(bytes_of(saved + "x")).error(), HasSubstr("trailing bytes"));
}

}  // namespace
}  // namespace rdmawire::captures::analysis
