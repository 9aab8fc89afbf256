#include "captures/io/ring.hpp"

#include <gmock/gmock.h>

#include "captures/io/test_support.hpp"

namespace rdmawire::captures {
namespace {

using namespace testing_support;
using ::testing::MatchesRegex;

constexpr std::int64_t second = 1'000'000'000;
constexpr std::int64_t begin_time = 1732160200 * second;

Record record_at(const ByteVector& bytes, std::int64_t time) {
  Record record;
  record.bytes = bytes;
  record.time = time;
  record.wire_length = static_cast<std::uint32_t>(bytes.size());
  return record;
}
std::vector<std::string> names_in(const TemporaryDirectory& directory) {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(directory.path()))
    names.push_back(entry.path().filename().string());
  std::sort(names.begin(), names.end());
  return names;
}

TEST(Ring, SizeLimitKeepsTheLatestFiles) {
  const TemporaryDirectory directory;
  RingWriter ring(directory.file("x.pcapng"), {.max_bytes = 10'000, .keep = 3});
  EXPECT_EQ(ring.add_interface({}), 0u);
  const ByteVector bytes(968, 0x5a);  // 1000 bytes, including the rest of the block
  for (int i = 0; i < 100; ++i) ASSERT_TRUE(ring.write(record_at(bytes, begin_time + i), begin_time + i));
  ASSERT_TRUE(ring.close(begin_time + 100));
  EXPECT_EQ(ring.records(), 100u);
  EXPECT_EQ(ring.files_begun(), 12u);  // 9 packets per file
  ASSERT_EQ(ring.files().size(), 3u);
  const auto names = names_in(directory);
  ASSERT_EQ(names.size(), 3u);
  EXPECT_THAT(names[0], MatchesRegex("x_00010_2024112[0-9]{7}\\.pcapng"));  // the local time is on the 20th or the 21st
  std::vector<std::int64_t> times;
  for (const std::string& file : ring.files()) {
    EXPECT_LE(std::filesystem::file_size(file), 10'000u);
    const Whole whole = read_all(Reader::open(file));
    EXPECT_EQ(whole.error, "");
    for (const Packet& packet : whole.packets) times.push_back(packet.time);
  }
  ASSERT_EQ(times.size(), 19u);
  for (std::size_t i = 0; i < times.size(); ++i) EXPECT_EQ(times[i], begin_time + 81 + static_cast<std::int64_t>(i));
}
TEST(Ring, AgeLimitAppliesWithoutPackets) {
  const TemporaryDirectory directory;
  RingWriter ring(directory.file("x.pcap.gz"), {.max_nanoseconds = 2 * second});
  ring.add_interface({});
  const ByteVector bytes(10);
  ASSERT_TRUE(ring.write(record_at(bytes, begin_time), begin_time));
  ASSERT_TRUE(ring.tick(begin_time + second));
  EXPECT_EQ(ring.files().size(), 1u);
  ASSERT_TRUE(ring.tick(begin_time + 2 * second));
  EXPECT_EQ(ring.files().size(), 2u);
  ASSERT_TRUE(ring.write(record_at(bytes, begin_time + 7 * second), begin_time + 7 * second));
  ASSERT_TRUE(ring.close(begin_time + 7 * second));
  ASSERT_EQ(ring.files().size(), 3u);
  EXPECT_THAT(ring.files()[2], ::testing::ContainsRegex("/x_00003_[0-9]{14}\\.pcap\\.gz$"));
  EXPECT_EQ(read_all(Reader::open(ring.files()[0])).packets.size(), 1u);
  EXPECT_EQ(read_all(Reader::open(ring.files()[1])).packets.size(), 0u);
  EXPECT_EQ(read_all(Reader::open(ring.files()[2])).packets.size(), 1u);
}
TEST(Ring, EachFileCountsItsOwnDrops) {
  const TemporaryDirectory directory;
  InterfaceStatistics total;
  RingWriter ring(directory.file("x.pcapng"), {.max_nanoseconds = second},
                  [&] { return std::vector<std::optional<InterfaceStatistics>>{total}; });
  Interface interface;
  interface.name = "eth0";
  ring.add_interface(interface);
  const ByteVector bytes(10);
  total.received = 0;
  for (int i = 0; i < 3; ++i) {
    ASSERT_TRUE(ring.write(record_at(bytes, begin_time + i * second), begin_time + i * second));
    total.received = static_cast<std::uint64_t>(100 * (i + 1));
    total.system_drops = static_cast<std::uint64_t>(i * i);
  }
  ASSERT_TRUE(ring.close(begin_time + 3 * second));
  ASSERT_EQ(ring.files().size(), 3u);
  const std::uint64_t drops[] = {0, 1, 3};
  for (std::size_t i = 0; i < 3; ++i) {
    auto reader = Reader::open(ring.files()[i]);
    ASSERT_TRUE(reader);
    EXPECT_EQ(read_all(*reader).packets.size(), 1u);
    const auto& statistics = reader->interfaces().at(0).statistics;
    ASSERT_TRUE(statistics);
    EXPECT_EQ(statistics->received, 100u);
    EXPECT_EQ(statistics->system_drops, drops[i]);
    EXPECT_EQ(statistics->start_time, begin_time + static_cast<std::int64_t>(i) * second);
    EXPECT_EQ(statistics->end_time, begin_time + static_cast<std::int64_t>(i + 1) * second);
  }
}
TEST(Ring, SingleFileWithoutLimits) {
  const TemporaryDirectory directory;
  RingWriter ring(directory.file("x.pcapng"), {});
  ring.add_interface({});
  ASSERT_TRUE(ring.close(begin_time));
  EXPECT_THAT(names_in(directory), ::testing::ElementsAre("x.pcapng"));
}
TEST(Ring, ReportsErrors) {
  RingWriter ring("/nonexistent/x.pcapng", {.max_bytes = 1000});
  ring.add_interface({});
  const auto result = ring.write(record_at({}, begin_time), begin_time);
  ASSERT_FALSE(result);
  EXPECT_EQ(result.error().kind, CaptureError::Kind::write);
}

}  // namespace
}  // namespace rdmawire::captures
