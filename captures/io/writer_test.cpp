#include "captures/io/writer.hpp"

#include <gmock/gmock.h>
#include <sys/resource.h>
#include <sys/wait.h>

#include <csignal>

#include "captures/io/test_support.hpp"

namespace rdmawire::captures {
namespace {

using namespace testing_support;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

Record record_of(const ByteVector& bytes, std::int64_t time, std::uint32_t interface = 0,
                 std::uint32_t wire_length = 0) {
  Record record;
  record.bytes = bytes;
  record.time = time;
  record.interface = interface;
  record.wire_length = wire_length == 0 ? static_cast<std::uint32_t>(bytes.size()) : wire_length;
  return record;
}
constexpr std::int64_t time_of_first = 1732160200'123456789;

TEST(Writer, PcapWithNanosecondsHasExpectedBytes) {
  const TemporaryDirectory directory;
  const std::string path = directory.file("x.pcap");
  auto writer = Writer::create(path);
  ASSERT_TRUE(writer);
  EXPECT_EQ(writer->format(), Format::pcap);
  Interface interface;
  interface.link = LinkType::infiniband;
  ASSERT_EQ(writer->add_interface(interface), 0u);
  ASSERT_TRUE(writer->write(record_of(hex("deadbeef"), time_of_first, 0, 60)));
  ASSERT_TRUE(writer->close());
  EXPECT_EQ(read_file(path), hex("4d3cb2a1 0200 0400 00000000 00000000 00000400 f7000000"
                                 "c8aa3e67 15cd5b07 04000000 3c000000 deadbeef"));
}
TEST(Writer, PcapWithMicrosecondsHasExpectedBytes) {
  const TemporaryDirectory directory;
  const std::string path = directory.file("x.cap");
  auto writer = Writer::create(path, {.nanoseconds = false});
  ASSERT_TRUE(writer);
  Interface interface;
  interface.snap_length = 96;
  interface.fcs_length = 4;
  ASSERT_TRUE(writer->add_interface(interface));
  ASSERT_TRUE(writer->write(record_of(hex("01"), time_of_first)));
  ASSERT_TRUE(writer->close());
  EXPECT_EQ(read_file(path), hex("d4c3b2a1 0200 0400 00000000 00000000 60000000 01000024"
                                 "c8aa3e67 40e20100 01000000 01000000 01"));
}
TEST(Writer, PcapngHasExpectedBytes) {
  const TemporaryDirectory directory;
  const std::string path = directory.file("x.pcapng");
  Section section;
  section.application = "rdmawire";
  auto writer = Writer::create(path, {.section = section});
  ASSERT_TRUE(writer);
  Interface interface;
  interface.name = "eth0";
  ASSERT_TRUE(writer->add_interface(interface));
  const std::vector<std::string_view> comments{"look!"};
  ASSERT_TRUE(writer->write(record_of(hex("deadbeef99"), time_of_first, 0, 60), comments));
  InterfaceStatistics statistics;
  statistics.time = time_of_first;
  statistics.received = 100;
  statistics.interface_drops = 3;
  ASSERT_TRUE(writer->write(0, statistics));
  ASSERT_TRUE(writer->close());
  EXPECT_EQ(read_file(path), hex("0a0d0d0a 2c000000 4d3c2b1a 0100 0000 ffffffffffffffff"
                                 "0400 0800 72646d6177697265 0000 0000 2c000000"
                                 "01000000 28000000 0100 0000 00000000"
                                 "0200 0400 65746830 0900 0100 09000000 0000 0000 28000000"
                                 "06000000 38000000 00000000 86de0918 159d6d4e 05000000 3c000000"
                                 "deadbeef 99000000 0100 0500 6c6f6f6b21000000 0000 0000 38000000"
                                 "05000000 34000000 00000000 86de0918 159d6d4e"
                                 "0400 0800 6400000000000000 0500 0800 0300000000000000 0000 0000 34000000"));
}

TEST(Writer, PcapngRoundTripPreservesAllFields) {
  const TemporaryDirectory directory;
  for (const char* name : {"x.pcapng", "x.pcapng.gz", "x.pcapng.zst"}) {
    const std::string path = directory.file(name);
    Section section;
    section.hardware = "a machine";
    section.os = "Linux 6.1";
    section.application = "rdmawire 0.1";
    section.comments = {"first", "second"};
    auto writer = Writer::create(path, {.section = section});
    ASSERT_TRUE(writer);
    Interface a, b;
    a.name = "eth0";
    a.description = "the wire";
    a.filter = "udp port 4791";
    a.os = "Linux";
    a.hardware = "ConnectX";
    a.snap_length = 128;
    a.fcs_length = 4;
    a.comments = {"an interface"};
    b.link = LinkType::infiniband;
    b.name = "ib0";
    ASSERT_EQ(writer->add_interface(a), 0u);
    ASSERT_TRUE(writer->write(record_of(hex("01"), 1)));
    ASSERT_EQ(writer->add_interface(b), 1u) << "interfaces may come after packets";
    std::vector<Packet> expected;
    for (int i = 0; i < 3000; ++i) {
      const ByteVector bytes(static_cast<std::size_t>(i % 1400), static_cast<std::uint8_t>(i));
      const std::vector<std::string_view> comments(static_cast<std::size_t>(i % 3), "why this one");
      ASSERT_TRUE(
          writer->write(record_of(bytes, time_of_first + i, static_cast<std::uint32_t>(i % 2), 1500), comments));
    }
    InterfaceStatistics statistics;
    statistics.time = 50;
    statistics.start_time = 10;
    statistics.end_time = 40;
    statistics.received = 1;
    statistics.interface_drops = 2;
    statistics.filter_accepted = 3;
    statistics.system_drops = 4;
    statistics.delivered = 5;
    ASSERT_TRUE(writer->write(1, statistics));
    EXPECT_EQ(writer->records(), 3001u);
    ASSERT_TRUE(writer->close());

    auto reader = Reader::open(path);
    ASSERT_TRUE(reader);
    const Whole whole = read_all(*reader);
    EXPECT_EQ(whole.error, "");
    ASSERT_EQ(whole.packets.size(), 3001u);
    for (int i = 0; i < 3000; ++i) {
      const Packet& packet = whole.packets[static_cast<std::size_t>(i) + 1];
      ASSERT_EQ(packet.bytes, ByteVector(static_cast<std::size_t>(i % 1400), static_cast<std::uint8_t>(i)));
      ASSERT_EQ(packet.time, time_of_first + i);
      ASSERT_EQ(packet.wire_length, 1500u);
      ASSERT_EQ(packet.link, i % 2 ? LinkType::infiniband : LinkType::ethernet);
      ASSERT_EQ(packet.comments, std::vector<std::string>(static_cast<std::size_t>(i % 3), "why this one"));
    }
    const Section& s = reader->sections().at(0);
    EXPECT_EQ(s.hardware, "a machine");
    EXPECT_EQ(s.os, "Linux 6.1");
    EXPECT_EQ(s.application, "rdmawire 0.1");
    EXPECT_THAT(s.comments, ElementsAre("first", "second"));
    const Interface& i = reader->interfaces().at(0);
    EXPECT_EQ(i.name, a.name);
    EXPECT_EQ(i.description, a.description);
    EXPECT_EQ(i.filter, a.filter);
    EXPECT_EQ(i.os, a.os);
    EXPECT_EQ(i.hardware, a.hardware);
    EXPECT_EQ(i.snap_length, a.snap_length);
    EXPECT_EQ(i.fcs_length, a.fcs_length);
    EXPECT_EQ(i.comments, a.comments);
    EXPECT_FALSE(i.statistics);
    EXPECT_EQ(reader->interfaces().at(1).statistics, statistics);
  }
}
TEST(Writer, RecordOptionsArePreserved) {
  // A big-endian file with a comment, flags, a drop count, a packet id and an unknown option.
  const ByteVector file =
      hex("0a0d0d0a 0000001c 1a2b3c4d 0001 0000 ffffffffffffffff 0000001c"
          "00000001 00000014 0001 0000 00000000 00000014"
          "00000006 00000058 00000000 00000000 00000005 00000001 00000001 07000000"
          "0001 0003 68692100 0002 0004 00000002 0004 0008 0000000000000009 0005 0008 00000000000000aa"
          "8001 0002 abcd0000 0000 0000 00000058");
  const TemporaryDirectory directory;
  const std::string path = directory.file("x.pcapng");
  auto reader = Reader::from_memory(file);
  ASSERT_TRUE(reader);
  auto writer = Writer::create(path);
  Record record;
  ASSERT_EQ(reader->next(record), Next::record) << to_string(reader->error());
  ASSERT_TRUE(writer->add_interface(reader->interfaces()[0]));
  const std::vector<std::string_view> more{"and this"};
  ASSERT_TRUE(writer->write(record, more));
  ASSERT_TRUE(writer->close());
  auto written = Reader::open(path);
  ASSERT_EQ(written->next(record), Next::record);
  EXPECT_EQ(record.time, 5000);
  EXPECT_EQ(record.flags(), 2u);
  EXPECT_EQ(record.drops(), 9u);
  EXPECT_THAT(copy(record).comments, ElementsAre("hi!", "and this"));
  EXPECT_EQ(ByteVector(record.options.begin(), record.options.end()),
            hex("0100 0300 68692100 0200 0400 02000000 0400 0800 0900000000000000 0500 0800 aa00000000000000"
                "0180 0200 abcd0000 0100 0800 616e642074686973 0000 0000"));
}

TEST(Writer, RejectedRecordsDoNotEndWriting) {
  const TemporaryDirectory directory;
  const std::string path = directory.file("x.pcap");
  auto writer = Writer::create(path);
  ASSERT_TRUE(writer);
  ASSERT_TRUE(writer->add_interface({}));
  ASSERT_TRUE(writer->write(record_of(hex("01"), 1)));
  Interface other;
  other.link = LinkType::infiniband;
  const auto refused = writer->add_interface(other);
  ASSERT_FALSE(refused);
  EXPECT_EQ(
      to_string(refused.error()),
      path +
          ": link type 247 after link type 1: a pcap file has a single link type, use pcapng; rejected after 1 packet");
  constexpr std::int64_t in_2107 = 4'330'000'000'000'000'000;
  for (const auto& [record, why] : {std::pair(record_of(hex("02"), 2, 3), "undefined interface 3 (1 defined)"),
                                    std::pair(record_of(hex("02"), -1), "times before 1970"),
                                    std::pair(record_of(hex("02"), in_2107), "after 2106")}) {
    const auto result = writer->write(record);
    ASSERT_FALSE(result);
    EXPECT_THAT(to_string(result.error()), HasSubstr(why));
  }
  ASSERT_TRUE(writer->write(record_of(hex("02"), 2)));
  EXPECT_EQ(writer->records(), 2u);
  EXPECT_TRUE(writer->close());
  EXPECT_TRUE(writer->close());
  const Whole whole = read_all(Reader::open(path));
  EXPECT_EQ(whole.error, "");
  ASSERT_EQ(whole.packets.size(), 2u);

  auto early = Writer::create(directory.file("y.pcapng"));
  EXPECT_EQ(to_string(early->write(record_of(hex("01"), 1)).error()),
            directory.file("y.pcapng") +
                ": record 1 at byte 32: undefined interface 0 (0 defined); rejected after 0 packets");
  auto before = Writer::create(directory.file("z.pcapng"));
  ASSERT_TRUE(before->add_interface({}));
  EXPECT_THAT(to_string(before->write(record_of(hex("01"), -1)).error()), HasSubstr("times before 1970"));
}
TEST(Writer, RejectsRecordsLongerThanReadersAccept) {
  const TemporaryDirectory directory;
  const std::string path = directory.file("x.pcap");
  for (const std::uint32_t snap : {0u, 96u, 300'000u}) {
    const std::size_t most = std::max(snap, Reader::usual_snap_length);
    auto writer = Writer::create(path);
    Interface interface;
    interface.snap_length = snap;
    ASSERT_TRUE(writer->add_interface(interface));
    const ByteVector fits(most), exceeds(most + 1);
    ASSERT_TRUE(writer->write(record_of(fits, 1)));
    const auto refused = writer->write(record_of(exceeds, 2));
    ASSERT_FALSE(refused);
    EXPECT_THAT(to_string(refused.error()), HasSubstr("length " + std::to_string(most + 1) + " exceeds the limit"));
    ASSERT_TRUE(writer->write(record_of(fits, 3)));
    ASSERT_TRUE(writer->close());
    const Whole whole = read_all(Reader::open(path));
    EXPECT_EQ(whole.error, "") << snap;
    EXPECT_EQ(whole.packets.size(), 2u) << snap;
  }
}
TEST(Writer, ReportsCreationErrors) {
  const auto writer = Writer::create("/nonexistent/x.pcap");
  ASSERT_FALSE(writer);
  EXPECT_EQ(to_string(writer.error()), "/nonexistent/x.pcap: cannot create: No such file or directory");
}
TEST(Writer, FullDeviceIsAnError) {
  if (!std::filesystem::exists("/dev/full")) GTEST_SKIP() << "skipped: needs /dev/full";
  auto writer = Writer::create("/dev/full");
  ASSERT_TRUE(writer);
  const auto result = writer->flush();
  ASSERT_FALSE(result);
  EXPECT_EQ(to_string(result.error()), "/dev/full: write error: No space left on device; stopped after 0 packets");
  EXPECT_FALSE(writer->close());
}
TEST(Writer, FileIsTruncatedAfterLastCompleteRecordOnError) {
  const TemporaryDirectory directory;
  const std::string path = directory.file("x.pcap");
  // A file size limit simulates a full disk. It is set in a child process, because it affects the whole process.
  const pid_t child = ::fork();
  if (child == 0) {
    ::signal(SIGXFSZ, SIG_IGN);
    const rlimit limit{3'000'001, 3'000'001};
    ::setrlimit(RLIMIT_FSIZE, &limit);
    auto writer = Writer::create(path);
    if (!writer || !writer->add_interface({})) ::_exit(2);
    const ByteVector bytes(984, 0x5a);  // 1000 bytes, including the header
    for (int i = 0; i < 5000; ++i) {
      const auto result = writer->write(record_of(bytes, i));
      if (result) continue;
      const bool expected =
          to_string(result.error()) ==
          path + ": write error: File too large, the file was truncated after its last complete record at byte " +
              "2999024; stopped after 2999 packets";
      ::_exit(expected && writer->records() == 2999 ? 0 : 3);
    }
    ::_exit(5);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(WEXITSTATUS(status), 0);
  const Whole whole = read_all(Reader::open(path));
  EXPECT_EQ(whole.error, "");
  EXPECT_EQ(whole.packets.size(), 2999u);
}
TEST(Writer, EmptyCaptureIsReadable) {
  const TemporaryDirectory directory;
  for (const char* name : {"x.pcap", "x.pcapng", "x.pcap.gz"}) {
    ASSERT_TRUE(Writer::create(directory.file(name))->close());
    const Whole whole = read_all(Reader::open(directory.file(name)));
    EXPECT_EQ(whole.error, "");
    EXPECT_TRUE(whole.packets.empty());
  }
}

}  // namespace
}  // namespace rdmawire::captures
