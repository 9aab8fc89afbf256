/// Measures how fast a capture of a million frames is read: by Reader with mapping and with the buffer, by libpcap's
/// pcap_next_ex, and by read(2) of the same bytes. The page cache is warm. The last lines print ratios.

#include <benchmark/benchmark.h>
#include <fcntl.h>
#include <pcap/pcap.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <ctime>
#include <filesystem>
#include <string>
#include <vector>

#include "captures/io/reader.hpp"
#include "captures/io/writer.hpp"

namespace {

using namespace rdmawire::captures;
constexpr std::size_t frames = 1'000'000;

/// Returns the path of a capture with packet lengths that are typical of RoCE: mostly full packets at path MTU 1024,
/// and some acknowledgements.
std::string generated(const char* name) {
  static const std::filesystem::path directory = [] {
    std::string pattern = (std::filesystem::temp_directory_path() / "rdmawire-bench-XXXXXX").string();
    const std::filesystem::path made = ::mkdtemp(pattern.data());
    static const struct Remove {
      std::filesystem::path path;
      ~Remove() {
        std::error_code ignored;
        std::filesystem::remove_all(path, ignored);
      }
    } remove{made};
    return made;
  }();
  const std::string path = (directory / name).string();
  if (std::filesystem::exists(path)) return path;
  auto writer = Writer::create(path);
  if (!writer || !writer->add_interface({})) std::abort();
  std::vector<std::uint8_t> bytes(1082);
  for (std::size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<std::uint8_t>(i * 7);
  Record record;
  for (std::size_t i = 0; i < frames; ++i) {
    record.bytes = rdmawire::Bytes(bytes).first(i % 4 == 3 ? 62 : 1082);
    record.wire_length = record.captured_length();
    record.time = 1'700'000'000'000'000'000 + static_cast<std::int64_t>(i) * 1000;
    if (!writer->write(record)) std::abort();
  }
  if (!writer->close()) std::abort();
  return path;
}

std::uint64_t with_reader(const std::string& path, bool map) {
  auto reader = Reader::open(path, {.map = map});
  Record record;
  std::uint64_t sum = 0;
  while (reader->next(record) == Next::record) sum += record.bytes[12] + record.wire_length;
  return sum;
}
std::uint64_t with_libpcap(const std::string& path) {
  std::array<char, PCAP_ERRBUF_SIZE> message{};
  pcap_t* const handle =
      pcap_open_offline_with_tstamp_precision(path.c_str(), PCAP_TSTAMP_PRECISION_NANO, message.data());
  pcap_pkthdr* header = nullptr;
  const std::uint8_t* bytes = nullptr;
  std::uint64_t sum = 0;
  while (pcap_next_ex(handle, &header, &bytes) == 1) sum += bytes[12] + header->len;
  pcap_close(handle);
  return sum;
}
std::uint64_t with_read(const std::string& path) {
  const int descriptor = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  std::vector<std::uint8_t> buffer(1 << 20);
  std::uint64_t sum = 0;
  ssize_t count = 0;
  while ((count = ::read(descriptor, buffer.data(), buffer.size())) > 0)
    sum += buffer[0] + static_cast<std::uint64_t>(count);
  ::close(descriptor);
  return sum;
}

/// Returns the CPU time of this thread, so that other processes do not affect the ratios.
double processor_seconds() {
  timespec time{};
  ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_nsec) * 1e-9;
}

/// Time of the fastest pass of each kind so far, for the ratios.
double fastest[4][2] = {};
enum Way { mapped, buffered, libpcap, plain_read };
constexpr const char* way_names[] = {"mapped", "buffered", "libpcap", "read(2) only"};

void pass(benchmark::State& state, Way way, const char* name) {
  const std::string path = generated(name);
  with_read(path);
  const bool ng = std::string(name).ends_with("ng");
  for (auto _ : state) {
    const double begin = processor_seconds();
    switch (way) {
      case mapped: benchmark::DoNotOptimize(with_reader(path, true)); break;
      case buffered: benchmark::DoNotOptimize(with_reader(path, false)); break;
      case libpcap: benchmark::DoNotOptimize(with_libpcap(path)); break;
      case plain_read: benchmark::DoNotOptimize(with_read(path)); break;
    }
    const double seconds = processor_seconds() - begin;
    double& best = fastest[way][ng];
    if (best == 0 || seconds < best) best = seconds;
  }
  state.SetItemsProcessed(static_cast<std::int64_t>(state.iterations() * frames));
  state.counters["ns/frame"] = fastest[way][ng] * 1e9 / frames;
}

/// Measures the reader without memory latency: repeated passes over a capture in the CPU cache.
void in_cache(benchmark::State& state, const char* name) {
  const std::string path = generated(name);
  std::vector<std::uint8_t> bytes(256 * 1024);
  const int descriptor = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  bytes.resize(static_cast<std::size_t>(std::max<ssize_t>(::read(descriptor, bytes.data(), bytes.size()), 0)));
  ::close(descriptor);
  std::uint64_t records = 0;
  for (auto _ : state) {
    auto reader = Reader::from_memory(bytes);
    Record record;
    while (reader->next(record) == Next::record) benchmark::DoNotOptimize(record.bytes.data());
    records += reader->records();
  }
  state.counters["time/frame"] =
      benchmark::Counter(static_cast<double>(records), benchmark::Counter::kIsRate | benchmark::Counter::kInvert);
}

const int registered = [] {
  for (const char* name : {"million.pcap", "million.pcapng"}) {
    for (const Way way : {mapped, buffered, libpcap, plain_read})
      benchmark::RegisterBenchmark((std::string(name) + "/" + way_names[way]).c_str(), pass, way, name)
          ->Unit(benchmark::kMillisecond)
          ->MinTime(0.5);
    benchmark::RegisterBenchmark((std::string(name) + "/in cache").c_str(), in_cache, name)->MinTime(0.2);
  }
  return 0;
}();

const struct Ratios {
  ~Ratios() {
    for (const int ng : {0, 1}) {
      if (fastest[mapped][ng] == 0 || fastest[libpcap][ng] == 0) continue;
      std::printf("%s: libpcap / mapped %.1f, libpcap / buffered %.1f, read(2) only / mapped %.1f\n",
                  ng ? "pcapng" : "pcap", fastest[libpcap][ng] / fastest[mapped][ng],
                  fastest[libpcap][ng] / fastest[buffered][ng], fastest[plain_read][ng] / fastest[mapped][ng]);
    }
    rusage usage{};
    ::getrusage(RUSAGE_SELF, &usage);
    std::printf("peak resident memory %ld KiB\n", usage.ru_maxrss);
  }
} ratios;

}  // namespace
