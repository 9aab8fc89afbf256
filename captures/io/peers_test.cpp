/// Tests interoperability: rdmawire and other programs must read the same records, lengths and times from each other's
/// files.

#include <gmock/gmock.h>

#include <algorithm>
#include <cinttypes>
#include <sstream>

#include "captures/io/test_support.hpp"
#include "captures/io/writer.hpp"
#include "source_directory.hpp"

namespace rdmawire::captures {
namespace {

using namespace testing_support;

const std::string samples = RDMAWIRE_SOURCE_DIR "/captures/samples/";

/// Returns "number time length captured" for each packet, as tshark prints it.
std::string as_tshark_reads(const std::string& path) {
  return output_of("tshark -n -r " + quoted(path) +
                   " -o frame.generate_md5_hash:FALSE -T fields -e frame.number -e frame.time_epoch -e frame.len "
                   "-e frame.cap_len 2>/dev/null");
}
std::string as_we_read(const std::string& path) {
  auto reader = Reader::open(path);
  if (!reader) return to_string(reader.error());
  std::ostringstream out;
  Record record;
  Next next{};
  while ((next = reader->next(record)) == Next::record) {
    char time[64];
    std::snprintf(time, sizeof time, "%" PRId64 ".%09" PRId64, record.time / 1'000'000'000,
                  record.time % 1'000'000'000);
    out << record.number << '\t' << time << '\t' << record.wire_length << '\t' << record.captured_length() << '\n';
  }
  if (next == Next::error) out << to_string(reader->error());
  return out.str();
}
#define NEEDS(tool) \
  if (!installed(tool)) GTEST_SKIP() << "skipped: needs " tool

TEST(Peers, TsharkReadsTheSamplesIdentically) {
  NEEDS("tshark");
  for (const auto& entry : std::filesystem::directory_iterator(samples)) {
    if (entry.path().extension() == ".md") continue;
    EXPECT_EQ(as_we_read(entry.path().string()), as_tshark_reads(entry.path().string())) << entry.path();
  }
}
TEST(Peers, TsharkReadsTheSharedCapturesIdentically) {
  NEEDS("tshark");
  const char* const named = std::getenv("RDMAWIRE_SHARED");
  const std::filesystem::path shared =
      std::filesystem::path(named ? named : RDMAWIRE_SOURCE_DIR "/../shared") / "captures";
  if (!std::filesystem::exists(shared / "public")) GTEST_SKIP() << "skipped: needs " << shared;
  for (const auto& entry : std::filesystem::directory_iterator(shared / "public")) {
    const std::string path = entry.path().string();
    auto reader = Reader::open(path);
    ASSERT_TRUE(reader) << to_string(reader.error());
    const std::string tshark = as_tshark_reads(path);
    if (reader->interfaces()[0].link == LinkType::erf) {
      // tshark removes the ERF header and uses its time, so only the numbers of packets can be compared.
      EXPECT_EQ(read_all(*reader).packets.size(),
                static_cast<std::size_t>(std::count(tshark.begin(), tshark.end(), '\n')));
    } else {
      EXPECT_EQ(as_we_read(path), tshark) << path;
    }
  }
}
TEST(Peers, ReadsEveryFormatThatEditcapWrites) {
  NEEDS("editcap");
  NEEDS("tshark");
  const TemporaryDirectory directory;
  const std::string original = as_we_read(samples + "rping.pcap");
  for (const char* format : {"pcap", "nsecpcap", "pcapng", "modpcap"}) {
    const std::string path = directory.file(format);
    output_of("editcap -F " + std::string(format) + " " + quoted(samples + "rping.pcap") + " " + quoted(path) +
              " 2>&1");
    EXPECT_EQ(as_we_read(path), original) << format;
  }
  // editcap truncates the packets, adds a comment, and shifts the times by one nanosecond.
  const std::string path = directory.file("snapped");
  output_of("editcap -F pcapng -s 64 -t 0.000000001 -a '3:a comment' " + quoted(samples + "rping.pcap") + " " +
            quoted(path) + " 2>&1");
  EXPECT_EQ(as_we_read(path), as_tshark_reads(path));
  const Whole whole = read_all(Reader::open(path));
  ASSERT_EQ(whole.packets.size(), 379u);
  EXPECT_THAT(whole.packets[2].comments, ::testing::ElementsAre("a comment"));
  EXPECT_LE(whole.packets[2].bytes.size(), 64u);
}
TEST(Peers, ReadsMergecapFilesWithSeveralInterfaces) {
  NEEDS("mergecap");
  NEEDS("tshark");
  const TemporaryDirectory directory;
  const std::string path = directory.file("x");
  output_of("mergecap -I none -F pcapng -w " + quoted(path) + " " + quoted(samples + "rping.pcap") + " " +
            quoted(samples + "two-interfaces.pcapng") + " 2>&1");
  EXPECT_EQ(as_we_read(path), as_tshark_reads(path));
  auto reader = Reader::open(path);
  ASSERT_TRUE(reader);
  EXPECT_EQ(read_all(*reader).packets.size(), 379u + 37u);
  EXPECT_EQ(reader->interfaces().size(), 3u);
}
TEST(Peers, ReadsTcpdumpFilesAndPipes) {
  NEEDS("tcpdump");
  const TemporaryDirectory directory;
  const std::string original = as_we_read(samples + "rping.pcap");
  const std::string path = directory.file("x");
  output_of("tcpdump -Z root --nano -r " + quoted(samples + "rping.pcap") + " -w - 2>/dev/null >" + quoted(path));
  auto reader = Reader::open(path);
  ASSERT_TRUE(reader) << to_string(reader.error());
  EXPECT_TRUE(reader->nanoseconds());
  EXPECT_EQ(as_we_read(path), original);
}
TEST(Peers, CapinfosCountsWrittenPackets) {
  NEEDS("capinfos");
  const TemporaryDirectory directory;
  for (const char* name : {"x.pcap", "x.pcapng", "x.pcapng.gz", "x.pcap.zst"}) {
    const std::string path = directory.file(name);
    auto reader = Reader::open(samples + "rping.pcap");
    auto writer = Writer::create(path);
    ASSERT_TRUE(writer && writer->add_interface(reader->interfaces()[0]));
    Record record;
    while (reader->next(record) == Next::record) ASSERT_TRUE(writer->write(record));
    InterfaceStatistics statistics;
    statistics.time = record.time;
    statistics.received = 379;
    ASSERT_TRUE(writer->write(0, statistics));
    ASSERT_TRUE(writer->close());
    EXPECT_EQ(output_of("capinfos -TmrQc " + quoted(path) + " 2>&1"), "\"" + path + "\",\"379\"\n");
    if (installed("tshark")) {
      EXPECT_EQ(as_we_read(path), as_tshark_reads(path)) << name;
    }
  }
}

}  // namespace
}  // namespace rdmawire::captures
