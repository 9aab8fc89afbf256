#include "captures/io/reader.hpp"

#include <gmock/gmock.h>
#include <sys/stat.h>

#include <thread>

#include "captures/io/test_support.hpp"

namespace rdmawire::captures {
namespace {

using namespace testing_support;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

// One packet at 2024-11-21 03:36:40.123456 UTC (1732160200). 4 of its 60 bytes are captured.
constexpr std::int64_t at_microseconds = 1732160200'123456000;
constexpr std::int64_t at_nanoseconds = 1732160200'123456789;

const ByteVector pcap_le =
    hex("d4c3b2a1 0200 0400 00000000 00000000 ffff0000 01000000"
        "c8aa3e67 40e20100 04000000 3c000000 deadbeef");
const ByteVector pcap_be =
    hex("a1b2c3d4 0002 0004 00000000 00000000 0000ffff 00000001"
        "673eaac8 0001e240 00000004 0000003c deadbeef");
const ByteVector pcap_ns_le =
    hex("4d3cb2a1 0200 0400 00000000 00000000 ffff0000 f7000000"
        "c8aa3e67 15cd5b07 04000000 3c000000 deadbeef");
const ByteVector pcap_ns_be =
    hex("a1b23c4d 0002 0004 00000000 00000000 0000ffff 000000f7"
        "673eaac8 075bcd15 00000004 0000003c deadbeef");
const ByteVector pcap_modified =
    hex("34cdb2a1 0200 0400 00000000 00000000 ffff0000 01000000"
        "c8aa3e67 40e20100 04000000 3c000000 02000000 0008 00 00 deadbeef");

Whole whole_of(const ByteVector& bytes) { return read_all(Reader::from_memory(bytes, "x")); }

void expect_the_packet(const ByteVector& bytes, std::int64_t time, LinkType link, std::uint64_t position) {
  const Whole whole = whole_of(bytes);
  EXPECT_EQ(whole.error, "");
  EXPECT_THAT(whole.packets, ElementsAre(Packet{hex("deadbeef"), time, 60, 0, link, 1, position, {}}));
}

TEST(Pcap, MicrosecondsInBothByteOrders) {
  expect_the_packet(pcap_le, at_microseconds, LinkType::ethernet, 24);
  expect_the_packet(pcap_be, at_microseconds, LinkType::ethernet, 24);
}
TEST(Pcap, NanosecondsInBothByteOrders) {
  expect_the_packet(pcap_ns_le, at_nanoseconds, LinkType::infiniband, 24);
  expect_the_packet(pcap_ns_be, at_nanoseconds, LinkType::infiniband, 24);
  EXPECT_TRUE(Reader::from_memory(pcap_ns_le)->nanoseconds());
  EXPECT_FALSE(Reader::from_memory(pcap_le)->nanoseconds());
}
TEST(Pcap, ModifiedRecordHeader) { expect_the_packet(pcap_modified, at_microseconds, LinkType::ethernet, 24); }
TEST(Pcap, FileHeaderWithoutRecordsIsComplete) {
  const Whole whole = whole_of(ByteVector(pcap_le.begin(), pcap_le.begin() + 24));
  EXPECT_EQ(whole.error, "");
  EXPECT_TRUE(whole.packets.empty());
}
TEST(Pcap, FileHeaderDescribesTheInterface) {
  const ByteVector file = hex("d4c3b2a1 0200 0400 00000000 00000000 60000000 01000024");
  const auto reader = Reader::from_memory(file);
  ASSERT_TRUE(reader);
  EXPECT_EQ(reader->format(), Format::pcap);
  ASSERT_EQ(reader->interfaces().size(), 1u);
  EXPECT_EQ(reader->interfaces()[0].snap_length, 96u);
  EXPECT_EQ(reader->interfaces()[0].resolution, 6);
  EXPECT_EQ(reader->interfaces()[0].link, LinkType::ethernet);
  EXPECT_EQ(reader->interfaces()[0].fcs_length, 4);  // the upper half of the link type is 2 units of 16 bits
}
TEST(Pcap, TimesAfter2038AreNotNegative) {
  ByteVector file = pcap_le;
  for (int i = 24; i < 28; ++i) file[i] = 0xff;
  EXPECT_EQ(whole_of(file).packets.at(0).time, 4294967295'123456000);
}
TEST(Pcap, EmptyRecordIsARecord) {
  const Whole whole =
      whole_of(pcap_le + hex("c8aa3e67 40e20100 00000000 3c000000") + ByteVector(pcap_le.begin() + 24, pcap_le.end()));
  EXPECT_EQ(whole.error, "");
  ASSERT_EQ(whole.packets.size(), 3u);
  EXPECT_TRUE(whole.packets[1].bytes.empty());
  EXPECT_EQ(whole.packets[2].bytes, hex("deadbeef"));
}
TEST(Pcap, LengthBeyondSnapLengthReportsRecordAndOffset) {
  // The length 0x11170 is 70000. Invalid data follows.
  const Whole whole = whole_of(pcap_le + hex("c8aa3e67 40e20100 70110100 70110100") + ByteVector(80000, 0xa5));
  EXPECT_EQ(whole.error,
            "x: record 2 at byte 44: length 70000 exceeds the file's snap length 65535; stopped after 1 packet");
  EXPECT_EQ(whole.kind, CaptureError::Kind::malformed);
  EXPECT_EQ(whole.packets.size(), 1u);
}
TEST(Pcap, LongRecordIsAcceptedIfAnotherRecordFollows) {
  const ByteVector record(pcap_le.begin() + 24, pcap_le.end());
  const ByteVector longer = hex("c8aa3e67 40e20100 70110100 70110100") + ByteVector(70000, 0xa5);
  const Whole followed = whole_of(pcap_le + longer + record);
  EXPECT_EQ(followed.error, "");
  EXPECT_EQ(followed.packets.size(), 3u);
  const Whole last = whole_of(pcap_le + longer);
  EXPECT_EQ(last.error, "");
  EXPECT_EQ(last.packets.size(), 2u);
}
TEST(Pcap, IncorrectLengthAllocatesNoMemory) {
  const Whole whole = whole_of(hex("d4c3b2a1 0200 0400 00000000 00000000 ffffffff 01000000") +
                               hex("c8aa3e67 40e20100 feffffff feffffff 00"));
  EXPECT_EQ(whole.error,
            "x: record 1 at byte 24: length 4294967294 exceeds the limit of 16777216 bytes per record; stopped after "
            "0 packets");
}
TEST(Pcap, UnsupportedVersionIsReported) {
  EXPECT_EQ(whole_of(hex("d4c3b2a1 0300 0400 00000000 00000000 ffff0000 01000000")).error,
            "x: file header at byte 0: unsupported version 3.4 (supported: 2.4); nothing was read");
}

// ---- pcapng: one section, eth0 with nanoseconds, one packet with a comment, flags and a drop count, statistics.
const ByteVector ng_le =
    hex("0a0d0d0a 34000000 4d3c2b1a 0100 0000 ffffffffffffffff"  // Section Header Block
        "0400 0800 72646d6177697265"                             //   application "rdmawire"
        "0100 0200 68690000"                                     //   comment "hi"
        "0000 0000 34000000"
        "01000000 30000000 0100 0000 00000400"  // Interface Description Block, snap length 262144
        "0200 0400 65746830"                    //   name "eth0"
        "0900 0100 09000000"                    //   10^-9 s
        "0b00 0400 00746370"                    //   filter "tcp"
        "0000 0000 30000000"
        "06000000 4c000000 00000000 86de0918 159d6d4e 05000000 3c000000"  // Enhanced Packet Block
        "deadbeef 99000000"
        "0100 0500 6c6f6f6b21000000"  //   comment "look!"
        "0200 0400 01000000"          //   flags: inbound
        "0400 0800 0700000000000000"  //   7 dropped since the preceding packet
        "0000 0000 4c000000"
        "05000000 34000000 00000000 86de0918 159d6d4e"  // Interface Statistics Block
        "0400 0800 6400000000000000"                    //   received 100
        "0500 0800 0300000000000000"                    //   dropped by the interface 3
        "0000 0000 34000000");

TEST(Pcapng, SectionInterfacePacketAndStatistics) {
  auto reader = Reader::from_memory(ng_le, "x");
  ASSERT_TRUE(reader);
  EXPECT_EQ(reader->format(), Format::pcapng);
  Record record;
  ASSERT_EQ(reader->next(record), Next::record) << to_string(reader->error());
  EXPECT_EQ(ByteVector(record.bytes.begin(), record.bytes.end()), hex("deadbeef99"));
  EXPECT_EQ(record.time, at_nanoseconds);
  EXPECT_EQ(record.wire_length, 60u);
  EXPECT_EQ(record.position, 100u);
  std::vector<std::string> comments;
  for (const auto comment : record.comments()) comments.emplace_back(comment);
  EXPECT_THAT(comments, ElementsAre("look!"));
  EXPECT_EQ(record.flags(), 1u);
  EXPECT_EQ(record.drops(), 7u);
  EXPECT_FALSE(reader->interfaces()[0].statistics);
  EXPECT_EQ(reader->next(record), Next::end);
  EXPECT_EQ(reader->next(record), Next::end);

  ASSERT_EQ(reader->sections().size(), 1u);
  EXPECT_EQ(reader->sections()[0].application, "rdmawire");
  EXPECT_THAT(reader->sections()[0].comments, ElementsAre("hi"));
  ASSERT_EQ(reader->interfaces().size(), 1u);
  const Interface& eth0 = reader->interfaces()[0];
  EXPECT_EQ(eth0.name, "eth0");
  EXPECT_EQ(eth0.filter, "tcp");
  EXPECT_EQ(eth0.resolution, 9);
  EXPECT_EQ(eth0.snap_length, 262144u);
  ASSERT_TRUE(eth0.statistics);
  EXPECT_EQ(eth0.statistics->received, 100u);
  EXPECT_EQ(eth0.statistics->interface_drops, 3u);
  EXPECT_FALSE(eth0.statistics->system_drops);
  EXPECT_EQ(eth0.statistics->drops(), 3u);
  EXPECT_EQ(eth0.statistics->time, at_nanoseconds);
}

// Builds minimal blocks in either byte order.
struct Order {
  bool big;
  [[nodiscard]] ByteVector number(std::uint64_t value, unsigned count) const {
    ByteVector out(count);
    big ? store_be(out.data(), count, value) : store_le(out.data(), count, value);
    return out;
  }
  [[nodiscard]] ByteVector u16(std::uint64_t v) const { return number(v, 2); }
  [[nodiscard]] ByteVector u32(std::uint64_t v) const { return number(v, 4); }
  [[nodiscard]] ByteVector block(std::uint32_t type, ByteVector body) const {
    body.resize((body.size() + 3) / 4 * 4);
    const std::uint64_t total = body.size() + 12;
    return u32(type) + u32(total) + body + u32(total);
  }
  [[nodiscard]] ByteVector section() const {
    return block(0x0a0d0d0a, u32(0x1a2b3c4d) + u16(1) + u16(0) + number(~0ULL, 8));
  }
  [[nodiscard]] ByteVector interface(std::uint16_t link, std::uint32_t snap = 0, const ByteVector& options = {}) const {
    return block(1, u16(link) + u16(0) + u32(snap) + options);
  }
  [[nodiscard]] ByteVector resolution(std::uint8_t value) const { return u16(9) + u16(1) + ByteVector{value, 0, 0, 0}; }
  [[nodiscard]] ByteVector offset(std::int64_t seconds) const {
    return u16(14) + u16(8) + number(static_cast<std::uint64_t>(seconds), 8);
  }
  [[nodiscard]] ByteVector packet(std::uint32_t index, std::uint64_t ticks, const ByteVector& bytes) const {
    ByteVector padded = bytes;
    padded.resize((padded.size() + 3) / 4 * 4);
    return block(
        6, u32(index) + u32(ticks >> 32) + u32(ticks & 0xffffffff) + u32(bytes.size()) + u32(bytes.size()) + padded);
  }
};
constexpr Order little{false}, big{true};

TEST(Pcapng, BothByteOrders) {
  for (const Order order : {little, big}) {
    const Whole whole =
        whole_of(order.section() + order.interface(247) + order.packet(0, 1732160200'123456, hex("0102")));
    EXPECT_EQ(whole.error, "");
    EXPECT_THAT(whole.packets,
                ElementsAre(Packet{hex("0102"), at_microseconds, 2, 0, LinkType::infiniband, 1, 48, {}}));
  }
}
TEST(Pcapng, SectionsHaveTheirOwnByteOrderAndInterfaces) {
  const ByteVector file = big.section() + big.interface(1) + big.interface(197) + big.packet(1, 5, hex("01")) +
                          little.section() + little.interface(113) + little.packet(0, 6, hex("02"));
  auto reader = Reader::from_memory(file);
  ASSERT_TRUE(reader);
  const Whole whole = read_all(*reader);
  EXPECT_EQ(whole.error, "");
  ASSERT_EQ(whole.packets.size(), 2u);
  EXPECT_EQ(whole.packets[0].interface, 1u);
  EXPECT_EQ(whole.packets[0].link, LinkType::erf);
  EXPECT_EQ(whole.packets[1].interface, 2u);
  EXPECT_EQ(whole.packets[1].link, LinkType::linux_sll);
  ASSERT_EQ(reader->sections().size(), 2u);
  EXPECT_TRUE(reader->sections()[0].big_endian);
  EXPECT_FALSE(reader->sections()[1].big_endian);
  EXPECT_EQ(reader->interfaces()[2].section, 1u);
}
TEST(Pcapng, TimeResolutionsAndOffsets) {
  const auto time = [](const ByteVector& options, std::uint64_t ticks) {
    const Whole whole = whole_of(big.section() + big.interface(1, 0, options) + big.packet(0, ticks, hex("00")));
    EXPECT_EQ(whole.error, "");
    return whole.packets.at(0).time;
  };
  EXPECT_EQ(time({}, 5), 5000) << "microseconds by default";
  EXPECT_EQ(time(big.resolution(9), 5), 5);
  EXPECT_EQ(time(big.resolution(3), 5), 5'000'000);
  EXPECT_EQ(time(big.resolution(0), 5), 5'000'000'000);
  EXPECT_EQ(time(big.resolution(12), 5999), 5);
  EXPECT_EQ(time(big.resolution(30), 5999), 0);
  EXPECT_EQ(time(big.resolution(127), ~0ULL), 0);
  EXPECT_EQ(time(big.resolution(0x80 | 10), 1024 + 512), 1'500'000'000);
  EXPECT_EQ(time(big.resolution(0x80 | 32), 0x1'4000'0000), 1'250'000'000);
  EXPECT_EQ(time(big.resolution(0xff), ~0ULL), 0);
  EXPECT_EQ(time(big.offset(100), 5), 100'000'005'000);
  EXPECT_EQ(time(big.offset(-1), 5), -999'995'000);
  EXPECT_EQ(time(big.resolution(0), ~0ULL), farthest_time) << "saturates";
  EXPECT_EQ(time(big.resolution(0x80), ~0ULL), farthest_time);
  EXPECT_EQ(time(big.resolution(9) + big.offset(INT64_MAX), 1), farthest_time);
  EXPECT_EQ(time(big.resolution(9) + big.offset(INT64_MIN), 1), -farthest_time);
}
TEST(Pcapng, SimplePacketBlockUsesSnapLengthAndHasNoTime) {
  const Whole whole = whole_of(big.section() + big.interface(1, 3) + big.block(3, big.u32(60) + hex("01020304")) +
                               big.section() + big.interface(1, 0) + big.block(3, big.u32(2) + hex("01020000")));
  EXPECT_EQ(whole.error, "");
  ASSERT_EQ(whole.packets.size(), 2u);
  EXPECT_EQ(whole.packets[0].bytes, hex("010203"));
  EXPECT_EQ(whole.packets[0].wire_length, 60u);
  EXPECT_EQ(whole.packets[0].time, 0);
  EXPECT_EQ(whole.packets[1].bytes, hex("0102"));
}
TEST(Pcapng, ObsoletePacketBlock) {
  const Whole whole =
      whole_of(big.section() + big.interface(1) + big.interface(229) +
               big.block(2, big.u16(1) + big.u16(0xffff) + big.u32(0) + big.u32(7) + big.u32(3) + big.u32(9) +
                                hex("01020300") + big.u16(1) + big.u16(2) + hex("6869 0000")));
  EXPECT_EQ(whole.error, "");
  EXPECT_THAT(whole.packets, ElementsAre(Packet{hex("010203"), 7000, 9, 1, LinkType::ipv6, 1, 68, {"hi"}}));
}
TEST(Pcapng, OtherBlocksAreSkippedAndCounted) {
  const ByteVector file = little.section() + little.interface(1) + little.block(4, ByteVector(40, 1)) +
                          little.block(0x0a, ByteVector(4000, 2)) + little.block(0xbad, hex("00007ed9 01020304")) +
                          little.block(0x40000bad, hex("00007ed9")) + little.block(0x80000001, ByteVector(8, 3)) +
                          little.block(9, {}) + little.packet(0, 1, hex("01"));
  auto reader = Reader::from_memory(file);
  const Whole whole = read_all(*reader);
  EXPECT_EQ(whole.error, "");
  EXPECT_EQ(whole.packets.size(), 1u);
  EXPECT_EQ(reader->skipped(), (SkippedBlocks{1, 1, 2, 2}));
}
TEST(Pcapng, SkippedBlockMayExceedTheRecordLimit) {
  const Whole whole =
      whole_of(little.section() + little.interface(1) + little.block(0xbad, ByteVector(Reader::max_record + 1000, 7)) +
               little.packet(0, 1, hex("01")));
  EXPECT_EQ(whole.error, "");
  EXPECT_EQ(whole.packets.size(), 1u);
}
TEST(Pcapng, UnknownAndRepeatedOptionsAreRead) {
  ByteVector options = little.u16(0x8123) + little.u16(3) + hex("01020300") + little.u16(1) + little.u16(1) +
                       hex("61000000") + little.u16(1) + little.u16(2) + hex("62620000");
  const ByteVector body =
      little.u32(0) + little.u32(0) + little.u32(0) + little.u32(4) + little.u32(4) + hex("01020304");
  const Whole whole = whole_of(little.section() + little.interface(1) + little.block(6, body + options));
  EXPECT_THAT(whole.packets.at(0).comments, ElementsAre("a", "bb"));
  // An option that exceeds its block ends the list of options. The record is valid.
  options.insert(options.end(), {1, 0, 0xff, 0xff});
  const Whole lying = whole_of(little.section() + little.interface(1) + little.block(6, body + options));
  EXPECT_EQ(lying.error, "");
  EXPECT_THAT(lying.packets.at(0).comments, ElementsAre("a", "bb"));
}
TEST(Pcapng, ErrorsNameTheBlockAndTheOffset) {
  const ByteVector begin = little.section() + little.interface(1) + little.packet(0, 1, hex("01"));  // 28 + 20 + 36
  const auto error = [&](const ByteVector& next) { return whole_of(begin + next).error; };
  EXPECT_EQ(error(little.packet(3, 1, hex("01"))),
            "x: record 2 at byte 84: undefined interface 3 (the section defines 1 so far); stopped after 1 packet");
  ByteVector lying = little.packet(0, 1, hex("01"));
  lying[20] = 0x99;
  EXPECT_EQ(error(lying),
            "x: record 2 at byte 84: length 153 exceeds the remaining 4 bytes of the block; stopped after 1 packet");
  EXPECT_EQ(error(little.u32(6) + little.u32(13) + ByteVector(64)),
            "x: record 2 at byte 84: total length 13 is less than 12 or not a multiple of 4; stopped after 1 packet");
  EXPECT_EQ(error(little.u32(5) + little.u32(0xfffffff0) + ByteVector(64)),
            "x: Interface Statistics Block at byte 84: total length 4294967280 exceeds the limit of 16777216 bytes per "
            "block; stopped after 1 packet");
  EXPECT_EQ(
      error(little.u32(0xbad) + little.u32(0xfffffff0) + ByteVector(64)),
      "x: Custom Block at byte 84: the file ends after 72 of the block's 4294967280 bytes; stopped after 1 packet");
  ByteVector other_end = little.packet(0, 1, hex("01"));
  other_end[32] = 0x28;
  EXPECT_EQ(error(other_end),
            "x: record 2 at byte 84: total length 36 at the start of the block, 40 at its end; stopped after 1 packet");
  EXPECT_EQ(
      error(little.block(5, little.u32(1) + ByteVector(8))),
      "x: Interface Statistics Block at byte 84: undefined interface 1 (the section defines 1 so far); stopped after 1 "
      "packet");
  EXPECT_EQ(error(hex("0a0d0d0a 1c000000 11223344") + ByteVector(16)),
            "x: Section Header Block at byte 84: invalid byte-order magic 11 22 33 44; stopped after 1 packet");
  EXPECT_EQ(error(little.block(0x0a0d0d0a, little.u32(0x1a2b3c4d) + little.u16(2) + little.u16(0) + ByteVector(8))),
            "x: Section Header Block at byte 84: unsupported version 2.0 (supported: 1.0); stopped after 1 packet");
}
TEST(Pcapng, NumberOfInterfacesIsLimited) {
  ByteVector file = little.section();
  const ByteVector interface = little.interface(1);
  for (std::uint32_t i = 0; i <= Reader::max_interfaces; ++i)
    file.insert(file.end(), interface.begin(), interface.end());
  EXPECT_THAT(whole_of(file).error, HasSubstr("more than 65536 interfaces"));
}

// ---- input kinds and truncation

TEST(Truncated, EveryPrefixYieldsPrecedingRecordsAndOneError) {
  const ByteVector ng_of_many = big.section() + big.interface(1) + big.packet(0, 1, hex("010203")) +
                                big.block(0xbad, ByteVector(20)) + little.section() + little.interface(1) +
                                little.block(3, little.u32(4) + hex("01020304")) +
                                little.block(2, ByteVector(16) + little.u32(0)) + little.packet(0, 1, hex("01"));
  const TemporaryDirectory directory;
  for (const ByteVector& file : {pcap_le + ByteVector(pcap_le.begin() + 24, pcap_le.end()), pcap_be, pcap_ns_le,
                                 pcap_ns_be, pcap_modified, ng_le, ng_of_many}) {
    const Whole all = whole_of(file);
    ASSERT_EQ(all.error, "");
    for (std::size_t length = 0; length < file.size(); ++length) {
      const ByteVector cut(file.begin(), file.begin() + static_cast<std::ptrdiff_t>(length));
      const Whole memory = whole_of(cut);
      ASSERT_LE(memory.packets.size(), all.packets.size());
      for (std::size_t i = 0; i < memory.packets.size(); ++i) EXPECT_EQ(memory.packets[i], all.packets[i]);
      if (!memory.error.empty() && length >= 4) {
        EXPECT_EQ(memory.kind, CaptureError::Kind::truncated) << memory.error;
        EXPECT_THAT(memory.error, HasSubstr("the file ends after")) << length;
      }
      // Reading through a memory mapping and through a buffer gives the same packets and error.
      const std::string path = directory.file("x");
      write_file(path, cut);
      for (const bool map : {true, false}) {
        Whole other = read_all(Reader::open(path, {.map = map}));
        EXPECT_EQ(other.packets, memory.packets);
        EXPECT_EQ(other.error, memory.error.empty() ? "" : path + memory.error.substr(1));
      }
    }
  }
}
TEST(Truncated, ErrorReportsRemainingBytesOfTheRecord) {
  EXPECT_EQ(whole_of(ByteVector(pcap_le.begin(), pcap_le.end() - 1)).error,
            "x: record 1 at byte 24: the file ends after 19 of the record's 20 bytes; stopped after 0 packets");
  EXPECT_EQ(
      whole_of(ByteVector(pcap_le.begin(), pcap_le.begin() + 30)).error,
      "x: record 1 at byte 24: the file ends after 6 of the 16 bytes of the record header; stopped after 0 packets");
}

TEST(Open, ReportsUnsupportedFiles) {
  const TemporaryDirectory directory;
  const auto error = [](const std::string& path) {
    auto reader = Reader::open(path);
    return reader ? std::string("opened") : to_string(reader.error());
  };
  EXPECT_EQ(error(directory.file("none")), directory.file("none") + ": cannot open: No such file or directory");
  EXPECT_EQ(error(directory.path().string()),
            directory.path().string() + ": is a directory; specify a capture file in it");
  const std::string path = directory.file("f");
  write_file(path, {});
  EXPECT_EQ(error(path), path + ": is empty: a capture has at least a file header");
  write_file(path, hex("01020304 0506070809"));
  EXPECT_EQ(error(path), path + ": neither pcap nor pcapng: it starts with 01 02 03 04 05 06 07 08");
  write_file(path, hex("a1"));
  EXPECT_EQ(error(path), path + ": neither pcap nor pcapng: it starts with a1");
  write_file(path, hex("fd377a585a00 0004"));
  EXPECT_THAT(error(path), HasSubstr("looks like an xz file: decompress it first"));
  write_file(path, pcap_le);
  ::chmod(path.c_str(), 0);
  const bool root = ::geteuid() == 0;
  constexpr uid_t unprivileged = 65534;
  if (root) {
    ASSERT_EQ(::seteuid(unprivileged), 0);
  }
  EXPECT_EQ(error(path), path +
                             ": cannot open: Permission denied; check the file permissions (captures made by root are "
                             "often private)");
  if (root) {
    ASSERT_EQ(::seteuid(0), 0);
  }
}
TEST(Open, PipeIsReadIncrementally) {
  int ends[2];
  ASSERT_EQ(::pipe(ends), 0);
  ASSERT_EQ(::write(ends[1], pcap_le.data(), pcap_le.size()), static_cast<ssize_t>(pcap_le.size()));
  auto reader = Reader::open("/dev/fd/" + std::to_string(ends[0]));
  ASSERT_TRUE(reader) << to_string(reader.error());
  EXPECT_FALSE(reader->stable());
  EXPECT_EQ(reader->file_size(), 0u);
  Record record;
  ASSERT_EQ(reader->next(record), Next::record) << "a complete record must be returned immediately";
  std::thread later([&] {
    for (std::size_t i = 24; i < pcap_le.size(); ++i) EXPECT_EQ(::write(ends[1], &pcap_le[i], 1), 1);
    ::close(ends[1]);
  });
  EXPECT_EQ(reader->next(record), Next::record);
  EXPECT_EQ(record.position, 44u);
  EXPECT_EQ(reader->next(record), Next::end);
  later.join();
  ::close(ends[0]);
}
TEST(Open, BytesOfMappedFileStayValid) {
  const TemporaryDirectory directory;
  const std::string path = directory.file("large.pcap");
  ByteVector file(pcap_le.begin(), pcap_le.begin() + 24);
  std::vector<std::uint8_t> record_head = hex("c8aa3e67 40e20100 f0ff0000 f0ff0000");
  for (int i = 0; i < 400; ++i) {  // 26 MB, which exceeds the mapped window
    file.insert(file.end(), record_head.begin(), record_head.end());
    file.resize(file.size() + 0xfff0, static_cast<std::uint8_t>(i));
  }
  write_file(path, file);
  auto reader = Reader::open(path);
  ASSERT_TRUE(reader);
  EXPECT_TRUE(reader->stable());
  EXPECT_EQ(reader->file_size(), file.size());
  std::vector<Bytes> seen;
  Record record;
  while (reader->next(record) == Next::record) seen.push_back(record.bytes);
  ASSERT_EQ(seen.size(), 400u);
  for (int i = 0; i < 400; ++i) {
    EXPECT_EQ(seen[i].front(), static_cast<std::uint8_t>(i));
    EXPECT_EQ(seen[i].back(), static_cast<std::uint8_t>(i));
  }
  EXPECT_EQ(reader->position(), file.size());
}
TEST(Open, ResidentMemoryDoesNotGrowWithAMappedFile) {
  // 128 MB, in which the regions between record headers are sparse.
  const TemporaryDirectory directory;
  const std::string path = directory.file("long.pcap");
  {
    std::fstream file(path, std::ios::binary | std::ios::out);
    file.write(reinterpret_cast<const char*>(pcap_le.data()), 24);
    const ByteVector head = hex("c8aa3e67 40e20100 f0ff0000 f0ff0000");
    for (int i = 0; i < 2048; ++i) {
      file.write(reinterpret_cast<const char*>(head.data()), 16);
      file.seekp(0xfff0, std::ios::cur);
    }
    file.seekp(-1, std::ios::cur);
    file.put(0);
  }
  const auto resident_file_pages = [] {
    std::ifstream statm("/proc/self/statm");
    std::size_t total = 0, resident = 0, shared = 0;
    statm >> total >> resident >> shared;
    return shared;
  };
  auto reader = Reader::open(path);
  ASSERT_TRUE(reader);
  const std::size_t before = resident_file_pages();
  std::size_t most = 0;
  Record record;
  while (reader->next(record) == Next::record)
    if (record.number % 64 == 0) most = std::max(most, resident_file_pages());
  EXPECT_EQ(reader->records(), 2048u);
  EXPECT_GE(most, before);
  EXPECT_LT((most - before) * static_cast<std::size_t>(::sysconf(_SC_PAGESIZE)), 20'000'000u);
}
TEST(Open, GrowingFileIsReadUpToItsInitialSize) {
  const TemporaryDirectory directory;
  const std::string path = directory.file("x");
  write_file(path, ByteVector(pcap_le.begin(), pcap_le.end() - 2));
  auto reader = Reader::open(path);
  ASSERT_TRUE(reader);
  write_file(path, pcap_le);
  const Whole whole = read_all(*reader);
  EXPECT_EQ(whole.error, path +
                             ": record 1 at byte 24: the file ends after 18 of the record's 20 bytes; stopped after "
                             "0 packets, but the file has grown since it was opened: read it again, or through a pipe");
}
TEST(Open, StandardInput) {
  int ends[2];
  ASSERT_EQ(::pipe(ends), 0);
  const int saved = ::dup(STDIN_FILENO);
  ::dup2(ends[0], STDIN_FILENO);
  ASSERT_EQ(::write(ends[1], ng_le.data(), ng_le.size() - 1), static_cast<ssize_t>(ng_le.size() - 1));
  ::close(ends[1]);
  const Whole whole = read_all(Reader::open("-"));
  EXPECT_EQ(whole.packets.size(), 1u);
  EXPECT_EQ(whole.error,
            "standard input: Interface Statistics Block at byte 176: the file ends after 51 of the block's 52 bytes; "
            "stopped after 1 packet");
  ::dup2(saved, STDIN_FILENO);
  ::close(saved);
  ::close(ends[0]);
}
TEST(Open, TruncationWhileMappedIsAnError) {
  const TemporaryDirectory directory;
  for (const std::size_t length : {std::size_t{100'000}, std::size_t{1}}) {
    for (const bool ng : {false, true}) {
      const std::string path = directory.file("cut.pcap");
      ByteVector file = ng ? little.section() + little.interface(1) : ByteVector(pcap_le.begin(), pcap_le.begin() + 24);
      const ByteVector record = ng ? little.packet(0, 1, ByteVector(1000, 0x5a))
                                   : hex("c8aa3e67 40e20100 e8030000 e8030000") + ByteVector(1000, 0x5a);
      while (file.size() < 24'000'000) file.insert(file.end(), record.begin(), record.end());
      write_file(path, file);
      auto reader = Reader::open(path);
      ASSERT_TRUE(reader);
      Record r;
      ASSERT_EQ(reader->next(r), Next::record);
      std::filesystem::resize_file(path, length);
      unsigned sum = 0;
      Next next{};
      while ((next = reader->next(r)) == Next::record) sum += r.bytes.back();
      ASSERT_EQ(next, Next::error);
      EXPECT_EQ(reader->error().kind, CaptureError::Kind::changed);
      EXPECT_THAT(to_string(reader->error()), HasSubstr("the file was truncated from"));
      EXPECT_THAT(to_string(reader->error()), HasSubstr(" bytes while it was read"));
      EXPECT_LT(reader->records(), 200u);
      EXPECT_EQ(sum > 0, length > 1);  // records that are still in the file were returned
    }
  }
}

}  // namespace
}  // namespace rdmawire::captures
