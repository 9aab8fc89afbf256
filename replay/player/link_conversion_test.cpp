#include "replay/player/link_conversion.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "captures/io/test_support.hpp"
#include "captures/io/writer.hpp"
#include "dissectors/protocol/decode.hpp"
#include "dissectors/protocol/ethernet.hpp"
#include "replay/faults/frames_for_test.hpp"
#include "replay/player/frames.hpp"
#include "replay/player/player.hpp"
#include "source_directory.hpp"

namespace rdmawire::replay {
namespace {

using ByteVector = std::vector<std::uint8_t>;
using captures::testing_support::TemporaryDirectory;

constexpr std::uint64_t mac_a = 0x0200000000aa, group = 0x01005e000005;

ByteVector joined(const ByteVector& header, Bytes packet) {
  ByteVector all = header;
  all.insert(all.end(), packet.begin(), packet.end());
  return all;
}

ByteVector sll(Bytes packet, std::uint16_t type = 0x0800, std::uint8_t packet_type = 0, bool with_address = true) {
  ByteVector header(16);
  header[1] = packet_type;
  header[3] = 1;  // ARPHRD_ETHER
  header[5] = with_address ? 6 : 0;
  store_be(header.data() + 6, 6, mac_a);
  store_be(header.data() + 14, 2, type);
  return joined(header, packet);
}

ByteVector sll2(Bytes packet) {
  ByteVector header(20);
  store_be(header.data(), 2, 0x0800);
  header[11] = 6;
  store_be(header.data() + 12, 6, mac_a);
  return joined(header, packet);
}

captures::Record record_of(const ByteVector& bytes, LinkType link) {
  captures::Record record;
  record.bytes = bytes;
  record.wire_length = static_cast<std::uint32_t>(bytes.size()) + 10;
  record.link = link;
  return record;
}

/// An IPv4 packet between 10.0.0.2 and 10.0.0.3.
ByteVector packet() {
  const ByteVector frame = testing::request(100);
  return {frame.begin() + Ethernet::size, frame.end()};
}

std::uint64_t source_of(const captures::Record& record) { return load_be<6>(record.bytes.data() + 6); }
std::uint64_t destination_of(const captures::Record& record) { return load_be<6>(record.bytes.data()); }

TEST(LinkConversion, CookedCapturesKeepSourceAddress) {
  for (const auto& [link, bytes] :
       {std::pair{LinkType::linux_sll, sll(packet())}, std::pair{LinkType::linux_sll2, sll2(packet())}}) {
    LinkConversion conversion;
    captures::Record record = record_of(bytes, link);
    ASSERT_TRUE(conversion.convert(record));
    EXPECT_EQ(record.link, LinkType::ethernet);
    EXPECT_EQ(source_of(record), mac_a);
    EXPECT_EQ(destination_of(record), 0x02000a000003U) << "02:00 and the address 10.0.0.3";
    EXPECT_EQ(record.wire_length, record.bytes.size() + 10) << "as many bytes are missing as before";
    EXPECT_EQ(decode(record.bytes).get<Bth>()->get<"psn">(), 100U);
  }
}

TEST(LinkConversion, LearnedAddressesAreUsedForBothDirections) {
  LinkConversion conversion;
  conversion.learn(record_of(sll(packet()), LinkType::linux_sll));
  ByteVector back = packet();
  std::swap_ranges(back.begin() + 12, back.begin() + 16, back.begin() + 16);
  const ByteVector bytes = sll(back, 0x0800, 4, false);  // sent by this host, without an address
  captures::Record record = record_of(bytes, LinkType::linux_sll);
  ASSERT_TRUE(conversion.convert(record));
  EXPECT_EQ(source_of(record), 0x02000a000003U);
  EXPECT_EQ(destination_of(record), mac_a);
}

TEST(LinkConversion, IpPacketsGetAddressesOfTheirHosts) {
  ByteVector loopback{2, 0, 0, 0};
  loopback = joined(loopback, packet());
  for (const auto& [link, bytes] : {std::pair{LinkType::raw_ip, packet()}, std::pair{LinkType::ipv4, packet()},
                                    std::pair{LinkType::null_loopback, loopback}}) {
    LinkConversion conversion;
    captures::Record record = record_of(bytes, link);
    ASSERT_TRUE(conversion.convert(record));
    EXPECT_EQ(source_of(record), 0x02000a000002U);
    EXPECT_EQ(destination_of(record), 0x02000a000003U);
    EXPECT_EQ(decode(record.bytes).get<Bth>()->get<"psn">(), 100U);
  }
}

TEST(LinkConversion, GroupsKeepGroupAddresses) {
  LinkConversion conversion;
  ByteVector multicast = packet();
  store_be(multicast.data() + 16, 4, 0xe0000005);
  captures::Record record = record_of(multicast, LinkType::raw_ip);
  ASSERT_TRUE(conversion.convert(record));
  EXPECT_EQ(destination_of(record), group);
  const ByteVector arp = sll(ByteVector(28), 0x0806, 1);
  record = record_of(arp, LinkType::linux_sll);
  ASSERT_TRUE(conversion.convert(record));
  EXPECT_EQ(destination_of(record), 0xffffffffffffU);
  EXPECT_EQ(load_be<2>(record.bytes.data() + 12), 0x0806U);
  ByteVector v6(40);
  v6[0] = 0x60;
  v6[24] = 0xff;
  v6[39] = 1;
  record = record_of(v6, LinkType::ipv6);
  ASSERT_TRUE(conversion.convert(record));
  EXPECT_EQ(destination_of(record), 0x333300000001U);
}

TEST(LinkConversion, PacketsWithoutEtherTypeAreRefused) {
  for (const auto& [link, bytes] :
       {std::pair{LinkType::linux_sll, sll(packet(), 4)}, std::pair{LinkType::linux_sll, ByteVector(15)},
        std::pair{LinkType::linux_sll2, ByteVector(19)}, std::pair{LinkType::raw_ip, ByteVector{0x15, 1, 2}},
        std::pair{LinkType::raw_ip, ByteVector{}}, std::pair{LinkType::null_loopback, ByteVector{1, 2}}}) {
    LinkConversion conversion;
    captures::Record record = record_of(bytes, link);
    EXPECT_FALSE(conversion.convert(record));
    EXPECT_EQ(record.link, link);
    EXPECT_EQ(record.bytes.data(), bytes.data());
  }
  EXPECT_FALSE(LinkConversion::supports(LinkType::infiniband));
}

/// The frames of a real capture in another link type.
class Converted : public ::testing::TestWithParam<LinkType> {};

TEST_P(Converted, CaptureIsReplayedAsEthernet) {
  TemporaryDirectory directory;
  const std::string original = RDMAWIRE_SOURCE_DIR "/captures/samples/rping.pcap";
  const std::string other = directory.file("other.pcapng"), out = directory.file("out.pcapng");
  auto reader = captures::Reader::open(original).value();
  auto writer = captures::Writer::create(other).value();
  captures::Interface interface;
  interface.link = GetParam();
  ASSERT_TRUE(writer.add_interface(interface));
  captures::Record record;
  std::uint64_t written = 0;
  while (reader.next(record) == captures::Next::record) {
    const auto type = static_cast<std::uint16_t>(load_be<2>(record.bytes.data() + 12));
    const Bytes contents = record.bytes.subspan(Ethernet::size);
    ByteVector bytes(contents.begin(), contents.end());
    if (GetParam() == LinkType::raw_ip && type != 0x0800) continue;
    if (GetParam() == LinkType::linux_sll) {
      bytes = sll(contents, type, load_be<6>(record.bytes.data()) == 0xffffffffffff);
      std::copy_n(record.bytes.begin() + 6, 6, bytes.begin() + 6);
    }
    record.bytes = bytes;
    record.wire_length = static_cast<std::uint32_t>(bytes.size());
    record.link = GetParam();
    record.interface = 0;
    record.options = {};
    ASSERT_TRUE(writer.write(record));
    ++written;
  }
  ASSERT_TRUE(writer.close());

  auto wire = open_wire("file:" + out).value();
  Wire* const wires[] = {wire.get()};
  PlayerOptions options;
  options.files = {other};
  const ReplayReport report = play(options, wires);
  wire->close();
  EXPECT_EQ(report.trouble, "");
  EXPECT_EQ(report.sent, written);
  EXPECT_EQ(report.converted, written);
  EXPECT_EQ(report.unable(), 0U);

  // The cooked capture restores all MAC addresses.
  auto before = captures::Reader::open(original).value(), after = captures::Reader::open(out).value();
  captures::Record a, b;
  while (after.next(b) == captures::Next::record) {
    EXPECT_EQ(b.link, LinkType::ethernet);
    do ASSERT_EQ(before.next(a), captures::Next::record);
    while (GetParam() == LinkType::raw_ip && load_be<2>(a.bytes.data() + 12) != 0x0800);
    const std::ptrdiff_t skipped = GetParam() == LinkType::linux_sll ? 0 : 12;
    EXPECT_TRUE(std::equal(a.bytes.begin() + skipped, a.bytes.end(), b.bytes.begin() + skipped, b.bytes.end()))
        << a.number;
  }

  FrameSource source({other});
  const auto learnt = survey(source);
  ASSERT_TRUE(learnt) << learnt.error();
  ASSERT_EQ(learnt->map.connections.size(), 1U);
  EXPECT_TRUE(learnt->map.connections[0].at(Side::a).mac.captured);
}

INSTANTIATE_TEST_SUITE_P(LinkTypes, Converted, ::testing::Values(LinkType::linux_sll, LinkType::raw_ip));

}  // namespace
}  // namespace rdmawire::replay
