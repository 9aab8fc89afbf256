// The result of an analysis must not depend on the number of threads, even if all packets belong to one connection.

#include "captures/analysis/parallel_scan.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "captures/analysis/damaged_for_test.hpp"
#include "captures/analysis/report.hpp"
#include "captures/analysis/run.hpp"

namespace rdmawire::captures::analysis {
namespace {

using testing::damaged;
using testing::difference_of;
using testing::samples;
using testing::Scratch;

RunOptions options_for(std::vector<std::string> files, unsigned threads) {
  RunOptions options;
  options.files = std::move(files);
  options.threads = threads;
  options.parallel_from = 0;
  return options;
}

std::string text_of_run(const RunOptions& options) {
  const RunResult result = run(options);
  std::string text = report_of(result.analysis, result.input).dump(1);
  for (const std::string& error : result.errors) text += "\n" + error;
  return text;
}

/// Expects equal results with 1, 2, 3 and 7 threads. Returns the result.
std::string expect_equal(RunOptions options) {
  options.threads = 1;
  const std::string one = text_of_run(options);
  for (const unsigned threads : {2U, 3U, 7U}) {
    options.threads = threads;
    EXPECT_EQ(difference_of(text_of_run(options), one), "") << threads << " threads";
  }
  return one;
}

TEST(ParallelScan, EachSampleHasTheSameReportWithAnyNumberOfThreads) {
  for (const std::string& file : samples()) {
    SCOPED_TRACE(file);
    EXPECT_GT(expect_equal(options_for({file}, 1)).size(), 1000U);
  }
}

TEST(ParallelScan, AllSamplesAsOneCaptureHaveTheSameReport) { expect_equal(options_for(samples(), 1)); }

TEST(ParallelScan, DamagedCapturesHaveTheSameReport) {
  const Scratch scratch;
  for (const std::uint32_t seed : {1U, 2U, 3U}) {
    SCOPED_TRACE(seed);
    const std::string path = damaged(scratch / "damaged.pcapng", seed);
    expect_equal(options_for({path}, 1));
    // Truncates the file, so that its last record is incomplete.
    std::filesystem::resize_file(path, std::filesystem::file_size(path) - 7);
    EXPECT_NE(expect_equal(options_for({path}, 1)).find("damaged.pcapng"), std::string::npos);
  }
}

TEST(ParallelScan, FullTablesAndEvictionsHaveTheSameReport) {
  const Scratch scratch;
  RunOptions options = options_for({damaged(scratch / "full.pcapng", 4)}, 1);
  options.tracker.connections = 20;
  options.tracker.memory = 1 << 18;
  options.dissector.tcp.connections = 4;
  options.dissector.evidence = 4;
  options.analysis.talkers = 6;
  options.analysis.distinct = 10;
  options.analysis.affected = 4;
  EXPECT_NE(expect_equal(options).find("\"exact\": false"), std::string::npos);
}

TEST(ParallelScan, OptionsThatSelectPacketsHaveTheSameReport) {
  const Scratch scratch;
  const std::string path = damaged(scratch / "selected.pcapng", 5);
  auto filter = output::Filter::compile("bth and not icrc.bad");
  if (!filter) filter = output::Filter::compile("bth");
  ASSERT_TRUE(filter);
  RunOptions filtered = options_for({path}, 1);
  filtered.filter = &*filter;
  const std::string all = expect_equal(options_for({path}, 1));
  EXPECT_NE(expect_equal(filtered), all);
  RunOptions range = options_for({path}, 1);
  range.from = {Boundary::Kind::frame, 100};
  range.to = {Boundary::Kind::frame, 900};
  EXPECT_NE(expect_equal(range), all);
  RunOptions no_crc = options_for({path}, 1);
  no_crc.dissector.verify_crcs = false;
  EXPECT_NE(expect_equal(no_crc), all);
  const RunResult result = run(options_for({path}, 1));
  const auto connections = result.analysis.kept_connections();
  ASSERT_FALSE(connections.empty());
  RunOptions one = options_for({path}, 1);
  one.connection = connections.front().id;
  EXPECT_NE(expect_equal(one), all);
}

// One thread processes the first part of a stream.
TEST(ParallelScan, StreamsHaveTheSameReportWhereverThreadsStart) {
  const Scratch scratch;
  std::ostringstream content;
  content << std::ifstream(damaged(scratch / "stream.pcapng", 6), std::ios::binary).rdbuf();
  const std::string bytes = content.str();
  const auto report = [&](unsigned threads, std::uint64_t from) {
    int ends[2];
    EXPECT_EQ(::pipe(ends), 0);
    std::jthread writer([&bytes, end = ends[1]] {
      for (std::size_t at = 0; at < bytes.size();) {
        const ssize_t count = ::write(end, bytes.data() + at, bytes.size() - at);
        if (count <= 0) break;
        at += static_cast<std::size_t>(count);
      }
      ::close(end);
    });
    const std::string name = scratch / "pipe";
    std::filesystem::remove(name);
    std::filesystem::create_symlink("/dev/fd/" + std::to_string(ends[0]), name);
    RunOptions options = options_for({name}, threads);
    options.parallel_from = from;
    std::string text = text_of_run(options);
    ::close(ends[0]);
    return text;
  };
  const std::string one = report(1, 0);
  EXPECT_GT(one.size(), 10'000U);
  for (const std::uint64_t from : {std::uint64_t{0}, std::uint64_t{1}, std::uint64_t{100'000}, UINT64_MAX})
    for (const unsigned threads : {2U, 3U})
      EXPECT_EQ(difference_of(report(threads, from), one), "") << threads << " from " << from;
}

TEST(ParallelScan, RecordsLargerThanABatchAreProcessed) {
  const Scratch scratch;
  const std::string path = scratch / "large.pcap";
  std::ofstream file(path, std::ios::binary);
  const auto word = [&](std::uint32_t value) { file.write(reinterpret_cast<const char*>(&value), 4); };
  for (const std::uint32_t value : {0xa1b2c3d4U, 0x00040002U, 0U, 0U, 1U << 24, 1U}) word(value);
  for (std::uint32_t i = 0; i < 40; ++i) {
    const std::uint32_t length = i % 3 == 0 ? 300'000 + i : 60;
    for (const std::uint32_t value : {1'700'000'000U, i, length, length}) word(value);
    file << std::string(length, static_cast<char>(i));
  }
  file.close();
  ASSERT_EQ(std::system(("gzip -k -f " + path).c_str()), 0);
  for (const std::string& name : {path, path + ".gz"}) {
    SCOPED_TRACE(name);
    EXPECT_NE(expect_equal(options_for({name}, 1)).find("\"packets\": 40"), std::string::npos);
  }
}

TEST(ParallelScan, SmallFilesAreProcessedByOneThread) {
  RunOptions options = options_for(samples(), 7);
  options.parallel_from = UINT64_MAX;
  options.restart = [] {};
  const std::thread::id caller = std::this_thread::get_id();
  std::atomic<bool> other = false;
  options.on_packet = [&](const tracking::Packet&) { other = other || std::this_thread::get_id() != caller; };
  static_cast<void>(run(options));
  EXPECT_FALSE(other);
  options.parallel_from = 0;
  options.on_packet = [&](const tracking::Packet&) { other = other || std::this_thread::get_id() != caller; };
  static_cast<void>(run(options));
  EXPECT_TRUE(other);
}

}  // namespace
}  // namespace rdmawire::captures::analysis
