// Tests the limit on memory: its text form, its effect on results with several threads, and failed allocations.

#include "captures/analysis/memory.hpp"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <new>
#include <random>
#include <sstream>
#include <vector>

#include "captures/analysis/csv.hpp"
#include "captures/analysis/memory_reserve.hpp"
#include "captures/analysis/report.hpp"
#include "captures/analysis/run.hpp"
#include "captures/io/writer.hpp"
#include "dissectors/protocol/sanitized_for_test.hpp"
#include "dissectors/tracking/frames_for_test.hpp"

namespace {

/// Number of allocations before one fails (negative: none fails).
std::atomic<std::int64_t> allocations_left{-1};

void* allocate(std::size_t bytes) {
  if (allocations_left.load(std::memory_order_relaxed) >= 0 && allocations_left.fetch_sub(1) == 0) return nullptr;
  return std::malloc(bytes ? bytes : 1);
}
[[gnu::noinline]] void release(void* at) { std::free(at); }

}  // namespace

// Replaces the allocator of this test program.
void* operator new(std::size_t bytes) {
  for (;;) {
    if (void* at = allocate(bytes)) return at;
    const std::new_handler handler = std::get_new_handler();
    if (!handler) throw std::bad_alloc();
    handler();
  }
}
void* operator new[](std::size_t bytes) { return ::operator new(bytes); }
void* operator new(std::size_t bytes, const std::nothrow_t&) noexcept { return allocate(bytes); }
void* operator new[](std::size_t bytes, const std::nothrow_t&) noexcept { return allocate(bytes); }
void operator delete(void* at) noexcept { release(at); }
void operator delete[](void* at) noexcept { release(at); }
void operator delete(void* at, std::size_t) noexcept { release(at); }
void operator delete[](void* at, std::size_t) noexcept { release(at); }

namespace rdmawire::captures::analysis {
namespace {

using tracking::testing::RdmaFrame;
namespace rc = tracking::testing::rc;

TEST(Memory, SizesAreRead) {
  constexpr std::uint64_t mebi = 1U << 20;
  EXPECT_EQ(parse_memory("64M"), 64 * mebi);
  EXPECT_EQ(parse_memory("64m"), 64 * mebi);
  EXPECT_EQ(parse_memory("64MiB"), 64 * mebi);
  EXPECT_EQ(parse_memory("64MB"), 64 * mebi);
  EXPECT_EQ(parse_memory("1G"), 1024 * mebi);
  EXPECT_EQ(parse_memory("1.5G"), 1536 * mebi);
  EXPECT_EQ(parse_memory("2T"), 2048 * 1024 * mebi);
  EXPECT_EQ(parse_memory("65536K"), 64 * mebi);
  EXPECT_EQ(parse_memory("67108864"), 64 * mebi);
  EXPECT_EQ(parse_memory("67108865B"), 64 * mebi + 1);
  EXPECT_EQ(parse_memory("64T"), most_memory);
}

TEST(Memory, InvalidSizesAreRejected) {
  for (const char* text : {"",           "M",
                           "x",          "-1G",
                           "+1G",        " 1G",
                           "1G ",        "1 G",
                           "1GG",        "1X",
                           "1Gi B",      "1GiBB",
                           "1iB",        "0",
                           "0G",         "63M",
                           "67108863",   "65T",
                           "1e10",       "1e3G",
                           "0x40000000", "inf",
                           "nan",        "1G1",
                           "1,5G",       "99999999999999999999999999",
                           "1..5G",      ".5G",
                           "1G\n"}) {
    const auto size = parse_memory(text);
    ASSERT_FALSE(size) << text;
    EXPECT_NE(size.error().find("64 MiB to 64 TiB"), std::string::npos) << size.error();
  }
  EXPECT_FALSE(parse_memory(std::string_view("1\0G", 3)));
  EXPECT_FALSE(parse_memory(std::string(100'000, '9')));
}

TEST(Memory, SizesArePrintedExactly) {
  EXPECT_EQ(memory_text(std::uint64_t{1} << 30), "1 GiB");
  EXPECT_EQ(memory_text(std::uint64_t{3} << 29), "1536 MiB");
  EXPECT_EQ(memory_text(1'000'000'001), "1000000001 bytes");
  EXPECT_EQ(memory_text(std::uint64_t{1} << 46), "64 TiB");
}

// On every host, the default leaves the limits of the analysis unchanged, and a smaller memory lowers them.
TEST(Memory, DefaultKeepsTheLimitsOfTables) {
  AnalysisOptions limited;
  limit_memory(default_memory, limited);
  const AnalysisOptions before;
  EXPECT_EQ(limited.connections, before.connections);
  EXPECT_EQ(limited.talkers, before.talkers);
  EXPECT_EQ(limited.regions, before.regions);
  EXPECT_EQ(limited.distinct, before.distinct);
  EXPECT_EQ(limited.affected, before.affected);
  tracking::TrackerOptions tracker;
  tracking::DissectorOptions dissector;
  limit_memory(least_memory, tracker, dissector);
  EXPECT_EQ(tracker.memory, least_memory * 45 / 100);
  EXPECT_LT(dissector.evidence, 1U << 13);
}

/// A capture in a temporary file.
class Capture {
 public:
  explicit Capture(const char* name)
      : path_((std::filesystem::temp_directory_path() / ("rdmawire-memory-" + std::to_string(::getpid()) + name))
                  .string()) {
    auto made = Writer::create(path_);
    EXPECT_TRUE(made);
    writer_.emplace(std::move(*made));
    Interface interface;
    interface.link = LinkType::raw_ip;
    EXPECT_TRUE(writer_->add_interface(interface));
  }
  ~Capture() { std::filesystem::remove(path_); }
  Capture(const Capture&) = delete;
  Capture& operator=(const Capture&) = delete;
  void add(const RdmaFrame& frame, std::int64_t after = 1000) {
    std::uint8_t bytes[RdmaFrame::most];
    Record record;
    record.bytes = Bytes(bytes, frame.write(bytes));
    record.wire_length = static_cast<std::uint32_t>(record.bytes.size());
    record.link = LinkType::raw_ip;
    record.time = time_ += after;
    EXPECT_TRUE(writer_->write(record));
  }
  std::string finish() {
    EXPECT_TRUE(writer_->close());
    return path_;
  }

 private:
  std::string path_;
  std::optional<Writer> writer_;
  std::int64_t time_ = 1'732'163'000'000'000'000;
};

RunOptions options_for(const std::string& path, unsigned threads) {
  RunOptions options;
  options.files = {path};
  options.threads = threads;
  options.parallel_from = 0;
  options.dissector.verify_crcs = false;
  options.analysis.connections = 100;  // the JSON of thousands of connections takes seconds
  return options;
}

std::string report_text(const RunResult& result) { return report_of(result.analysis, result.input).dump(1); }

/// Returns the first line that differs, or "" if there is none. A complete comparison of large texts would need much
/// memory.
std::string difference_of(const std::string& a, const std::string& b) {
  std::istringstream x(a), y(b);
  std::string line, other;
  for (std::size_t number = 1;; ++number) {
    const bool more = static_cast<bool>(std::getline(x, line)), others = static_cast<bool>(std::getline(y, other));
    if (!more && !others) return {};
    if (more != others || line != other) return std::to_string(number) + ": " + line + " / " + other;
  }
}

/// Expects equal reports with 1, 2 and 7 threads. `limit` lowers one limit. `exceeds` states that one thread drops
/// entries.
void expect_alike(const char* name, const std::string& path, const std::function<void(RunOptions&)>& limit,
                  bool exceeds = true) {
  SCOPED_TRACE(name);
  RunOptions options = options_for(path, 1);
  limit(options);
  const RunResult one = run(options);
  EXPECT_TRUE(one.errors.empty());
  const std::string expected = report_text(one);
  EXPECT_EQ(expected.find("\"exact\": false") != std::string::npos, exceeds);
  for (const unsigned threads : {2U, 7U}) {
    options.threads = threads;
    EXPECT_EQ(difference_of(report_text(run(options)), expected), "") << threads << " threads";
  }
}

/// Writes many connections between many hosts, with every kind of event that a single frame can cause.
std::string varied(Capture& capture, std::uint32_t frames) {
  std::mt19937 random(7);
  const auto below = [&](std::uint32_t bound) { return static_cast<std::uint32_t>(random() % bound); };
  for (std::uint32_t i = 0; i < frames; ++i) {
    RdmaFrame frame;
    constexpr std::uint8_t opcodes[] = {rc::send, rc::write, rc::read, rc::acknowledge, 0x64, 0x24, rc::write};
    frame.opcode = opcodes[below(7)];
    frame.from = 0x0a000001 + below(40);
    frame.to = 0x0a000001 + below(40);
    frame.qp = 16 + below(300);
    frame.psn = below(30) * (1 + below(2) * 90'000);
    frame.payload = below(3) * 64;
    frame.key = below(500);
    frame.length = frame.payload;
    frame.source_qp = 16 + below(300);
    frame.source_port = static_cast<std::uint16_t>(0xc000 + below(900));
    frame.traffic_class = static_cast<std::uint8_t>(below(4));
    frame.pkey = below(5) == 0 ? 0x8001 : 0xffff;
    capture.add(frame, below(60) == 0 ? 600'000'000 : 2000);
  }
  return capture.finish();
}

TEST(Memory, ThreadsGiveTheSameReportIfATableOverflows) {
  Capture capture("varied.pcap");
  const std::string path = varied(capture, 10'000);
  expect_alike(
      "none", path, [](RunOptions&) {}, false);
  expect_alike("connections", path, [](RunOptions& o) { o.tracker.connections = 50; });
  expect_alike("memory", path, [](RunOptions& o) { o.tracker.memory = 1 << 20; });
  expect_alike("little memory", path, [](RunOptions& o) { o.tracker.memory = 1; });
  expect_alike("talkers", path, [](RunOptions& o) { o.analysis.talkers = 20; });
  expect_alike("regions", path, [](RunOptions& o) { o.analysis.regions = 20; });
  expect_alike("distinct", path, [](RunOptions& o) { o.analysis.distinct = 100; });
  expect_alike("affected", path, [](RunOptions& o) { o.analysis.affected = 20; });
  expect_alike("all", path, [](RunOptions& o) {
    o.tracker.memory = 1 << 20;
    o.tracker.connections = 100;
    o.tracker.waiting_packets = 60;
    o.analysis.talkers = o.analysis.regions = o.analysis.affected = 10;
    o.analysis.distinct = 40;
    o.analysis.connections = 7;
    o.analysis.events_of_a_kind = 3;
  });
  // These limits drop nothing: packets are processed before their pair is known, and the largest rows are kept.
  expect_alike(
      "waiting", path, [](RunOptions& o) { o.tracker.waiting_packets = 40; }, false);
  expect_alike(
      "rows", path, [](RunOptions& o) { o.analysis.connections = 5; }, false);
}

TEST(Memory, FullTableOfReceiversIsCounted) {
  Incast incast(10'000, 2);
  for (std::uint64_t receiver = 1; receiver <= 3; ++receiver)
    for (std::uint64_t sender = 1; sender <= 2; ++sender) incast.add({0, sender}, {1, receiver}, 5, 100);
  EXPECT_EQ(incast.rows().size(), 2U);
  EXPECT_EQ(incast.overflow(), 2U);
  Incast merged;
  merged.merge(incast);
  EXPECT_EQ(merged.overflow(), 2U);
}

TEST(Memory, EvictionIsReported) {
  Capture capture("evicted.pcap");
  for (std::uint32_t i = 0; i < 5'000; ++i) capture.add({.qp = 16 + i, .psn = i * 7919 & 0xffffff});
  RunOptions options = options_for(capture.finish(), 2);
  options.tracker.memory = 1 << 20;
  const Json report = report_of(run(options).analysis, {});
  EXPECT_FALSE(report.at("input").at("exact"));
  EXPECT_GT(report.at("input").at("evicted").at("connections"), 0);
  EXPECT_EQ(report.at("summary").at("connections"), 5000) << "each is counted, because each has one packet";
}

TEST(Memory, TablesAreWrittenOnceIfTheFilesAreReadAgain) {
  Capture capture("csv.pcap");
  const std::string path = varied(capture, 5'000);
  std::vector<std::string> texts;
  for (const unsigned threads : {1U, 2U, 7U}) {
    const std::string directory = path + ".csv" + std::to_string(threads);
    auto tables = CsvTables::create(directory, false);
    ASSERT_TRUE(tables);
    RunOptions options = options_for(path, threads);
    options.tracker.connections = 50;
    options.also = tables->get();
    options.restart = [&] { (*tables)->restart(); };
    static_cast<void>(run(options));
    ASSERT_TRUE((*tables)->finish());
    std::string text;
    for (const char* name : {"connections", "flows", "messages", "events"}) {
      // The order of rows depends on the threads.
      std::ifstream file(directory + "/" + name + ".csv");
      std::vector<std::string> lines;
      for (std::string line; std::getline(file, line);) lines.push_back(line);
      std::sort(lines.begin(), lines.end());
      for (const std::string& line : lines) text += line + "\n";
    }
    texts.push_back(text);
    std::filesystem::remove_all(directory);
  }
  EXPECT_GT(texts[0].size(), 10'000U);
  EXPECT_EQ(difference_of(texts[0], texts[1]), "");
  EXPECT_EQ(difference_of(texts[0], texts[2]), "");
}

// Makes each allocation fail once. The result must be complete, or contain an error.
TEST(Memory, FailedAllocationsAreErrors) {
  Capture capture("failing.pcap");
  const std::string path = varied(capture, 600);
  const std::string expected = report_text(run(options_for(path, 1)));
  std::uint64_t failures = 0;
  for (const unsigned threads : {1U, 2U}) {
    std::int64_t step = 1;
    for (std::int64_t n = 0;; n += step) {
      if (n > 300) step = 37;
      bool thrown = false;
      RunResult result{Analysis(AnalysisOptions{}), {}, {}, 0};
      allocations_left = n;
      try {
        result = run(options_for(path, threads));
      } catch (const std::bad_alloc&) {
        thrown = true;
      }
      const bool failed = allocations_left.exchange(-1) < 0;
      if (!failed) break;
      ++failures;
      if (thrown) continue;
      if (result.errors.empty()) {
        // A thread failed, and the capture was analyzed again.
        EXPECT_EQ(difference_of(report_text(result), expected), "") << n;
      } else {
        EXPECT_NE(result.errors[0].find("out of memory"), std::string::npos) << result.errors[0];
        EXPECT_FALSE(report_of(result.analysis, result.input).empty());
      }
    }
  }
  EXPECT_GT(failures, 300U);
}

// Failed allocations succeed after the first part is released. The second part is available after check() has thrown.
TEST(MemoryReserve, HasMemoryForDestructors) {
  if (sanitized) GTEST_SKIP() << "requires a build without sanitizers, which reserve address space themselves";
  EXPECT_EXIT(
      {
        const MemoryReserve reserve;
        rlimit limit{};
        ::getrlimit(RLIMIT_AS, &limit);
        std::uint64_t pages = 0;
        std::ifstream("/proc/self/statm") >> pages;
        limit.rlim_cur = pages * static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE)) + (rlim_t{32} << 20);
        ::setrlimit(RLIMIT_AS, &limit);
        std::vector<std::vector<char>> blocks;
        blocks.reserve(1024);
        try {
          for (std::size_t i = 0; i < blocks.capacity(); ++i) {
            MemoryReserve::check();
            blocks.emplace_back(1 << 20);
          }
        } catch (const std::bad_alloc&) {
          std::vector<std::vector<char>> more(24);
          for (auto& block : more) block.resize(1 << 20);
          std::exit(blocks.empty() ? 2 : 0);
        }
        std::exit(1);
      },
      testing::ExitedWithCode(0), "");
}

TEST(MemoryReserve, CheckReturnsWithoutObject) { EXPECT_NO_THROW(MemoryReserve::check()); }

}  // namespace
}  // namespace rdmawire::captures::analysis
