#include "captures/io/interrupt.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <thread>

#include "captures/io/reader.hpp"
#include "captures/io/test_support.hpp"
#include "captures/io/writer.hpp"

namespace rdmawire::captures {
namespace {

using namespace std::chrono_literals;
using testing_support::TemporaryDirectory;
using Clock = std::chrono::steady_clock;

/// Writes a capture of `count` frames of 100 bytes. Returns its path.
std::string capture(const TemporaryDirectory& directory, int count) {
  const std::string path = directory.file("x.pcap");
  auto writer = Writer::create(path);
  EXPECT_TRUE(writer && writer->add_interface({}));
  const std::vector<std::uint8_t> bytes(100, 1);
  Record record;
  record.bytes = bytes;
  record.wire_length = 100;
  for (int i = 0; i < count; ++i) EXPECT_TRUE(writer->write(record));
  EXPECT_TRUE(writer->close());
  return path;
}

TEST(InterruptScope, EndsTheWaitForAPipeWithoutWriter) {
  const TemporaryDirectory directory;
  const std::string path = directory.file("fifo");
  ASSERT_EQ(::mkfifo(path.c_str(), 0600), 0);
  const auto begin = Clock::now();
  const InterruptScope scope([&] { return Clock::now() < begin + 100ms; });
  const auto reader = Reader::open(path);
  ASSERT_FALSE(reader);
  EXPECT_EQ(to_string(reader.error()), path + ": interrupted");
  EXPECT_LT(Clock::now(), begin + 60s);
}

TEST(InterruptScope, EndsTheWaitForTheRestOfARecord) {
  const TemporaryDirectory directory;
  const std::string path = directory.file("fifo");
  ASSERT_EQ(::mkfifo(path.c_str(), 0600), 0);
  std::ifstream file(capture(directory, 2), std::ios::binary);
  const std::string data{std::istreambuf_iterator<char>(file), {}};
  std::atomic<bool> stop = false, done = false;
  std::thread sender([&] {
    const int descriptor = ::open(path.c_str(), O_WRONLY);
    EXPECT_EQ(::write(descriptor, data.data(), data.size() - 10), static_cast<ssize_t>(data.size()) - 10);
    std::this_thread::sleep_for(100ms);
    stop = true;
    while (!done) std::this_thread::sleep_for(1ms);
    ::close(descriptor);
  });
  {
    const InterruptScope scope([&] { return !stop; });
    auto reader = Reader::open(path);
    ASSERT_TRUE(reader);
    Record record;
    EXPECT_EQ(reader->next(record), Next::record);
    EXPECT_EQ(reader->next(record), Next::error);
    EXPECT_EQ(reader->error().what, "interrupted");
  }
  done = true;
  sender.join();
}

TEST(InterruptScope, EndsReadingOfAMappedFile) {
  const TemporaryDirectory directory;
  const std::string path = capture(directory, 100'000);
  std::atomic<int> calls = 0;
  const InterruptScope scope([&] { return ++calls < 2; });
  auto reader = Reader::open(path);
  ASSERT_TRUE(reader);
  Record record;
  Next next = Next::record;
  std::uint64_t records = 0;
  while ((next = reader->next(record)) == Next::record && ++records) std::this_thread::sleep_for(100us);
  EXPECT_EQ(next, Next::error);
  EXPECT_EQ(reader->error().what, "interrupted");
  EXPECT_LT(records, 100'000U);
}

TEST(InterruptScope, EndsWithItsObject) {
  const TemporaryDirectory directory;
  const std::string path = capture(directory, 5000);
  {
    const InterruptScope scope([] { return false; });
  }
  EXPECT_FALSE(InterruptScope::active());
  auto reader = Reader::open(path);
  Record record;
  while (reader->next(record) == Next::record) {
  }
  EXPECT_EQ(reader->records(), 5000U);
}

}  // namespace
}  // namespace rdmawire::captures
