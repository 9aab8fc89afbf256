#include "replay/streams/tcp_packet.hpp"

#include <gtest/gtest.h>

#include <vector>

#include "dissectors/protocol/decode.hpp"
#include "dissectors/protocol/encode.hpp"
#include "dissectors/protocol/ethernet.hpp"
#include "dissectors/protocol/ip.hpp"
#include "dissectors/protocol/transport.hpp"

namespace rdmawire::replay {
namespace {

using End = TcpPacket::End;

/// A SYN from port 40000 with MSS 1460 and window scale, built by the encoder.
std::vector<std::uint8_t> syn(bool v6, const IpAddress& source, const IpAddress& destination) {
  Frame frame = Frame() / Value<Ethernet>();
  HeaderValue ip = v6 ? HeaderValue(Value<Ipv6>().set<"hop_limit">(64)) : HeaderValue(Value<Ipv4>().set<"ttl">(64));
  ip.set(*(v6 ? info<Ipv6>.find("src") : info<Ipv4>.find("src")), source.bytes());
  ip.set(*(v6 ? info<Ipv6>.find("dst") : info<Ipv4>.find("dst")), destination.bytes());
  frame /= std::move(ip);
  HeaderValue tcp = Value<Tcp>().set<"src_port">(40000).set<"dst_port">(7471).set<"seq">(1).set<"syn">(1);
  tcp.set_tail(std::vector<std::uint8_t>{2, 4, 0x05, 0xb4, 3, 3, 1, 0});
  frame /= std::move(tcp);
  auto bytes = frame.encode();
  return {bytes.begin() + static_cast<std::ptrdiff_t>(Ethernet::size), bytes.end()};
}
IpAddress address(const char* text) { return *IpAddress::parse(text); }

struct Version {
  const char* name;
  bool v6;
  const char* one;
  const char* other;
  const char* third;
};
class Packets : public ::testing::TestWithParam<Version> {};

TEST_P(Packets, AddressChangeKeepsValidChecksum) {
  const auto [name, v6, one, other, third] = GetParam();
  auto packet = syn(v6, address(one), address(other));
  const auto tcp = TcpPacket::find(packet);
  ASSERT_TRUE(tcp);
  EXPECT_EQ(tcp->v6, v6);
  EXPECT_EQ(tcp->bytes, packet.size());
  EXPECT_EQ(tcp->flags(packet), TcpPacket::syn);
  EXPECT_EQ(tcp->source_port(packet), 40000);
  EXPECT_EQ(tcp->address(packet, End::source), address(one));
  EXPECT_EQ(tcp->address(packet, End::destination), address(other));
  tcp->set_address(packet, End::destination, address(third));
  EXPECT_EQ(packet, syn(v6, address(one), address(third)));
  tcp->set_address(packet, End::source, address(other));
  EXPECT_EQ(packet, syn(v6, address(other), address(third)));
}

TEST_P(Packets, AddressChangeKeepsChecksumError) {
  const auto [name, v6, one, other, third] = GetParam();
  auto packet = syn(v6, address(one), address(other)), good = syn(v6, address(one), address(third));
  const auto tcp = TcpPacket::find(packet);
  ASSERT_TRUE(tcp);
  packet[tcp->transport + 4] ^= 0x40;
  good[tcp->transport + 4] ^= 0x40;
  tcp->set_address(packet, End::destination, address(third));
  EXPECT_EQ(packet, good);
}

TEST_P(Packets, AnnouncedMssIsChanged) {
  const auto [name, v6, one, other, third] = GetParam();
  auto packet = syn(v6, address(one), address(other));
  const auto tcp = TcpPacket::find(packet);
  ASSERT_TRUE(tcp);
  const std::size_t option = tcp->transport + Tcp::size;
  tcp->set_announced_mss(packet, 536);
  EXPECT_EQ(load_be<4>(packet.data() + option), 0x02040218U);
  // The encoder computes the same checksum for these bytes.
  auto expected = syn(v6, address(one), address(other));
  const std::uint16_t before = static_cast<std::uint16_t>(load_be<2>(expected.data() + tcp->transport + 16));
  const std::uint16_t after = static_cast<std::uint16_t>(load_be<2>(packet.data() + tcp->transport + 16));
  // 0x05b4 - 0x0218 more in one's complement.
  EXPECT_EQ((std::uint32_t{before} + 0x05b4 - 0x0218) % 0xffff, after % 0xffff);
  // Only packets with SYN have an MSS option.
  packet[tcp->transport + 13] = TcpPacket::ack;
  const auto same = packet;
  tcp->set_announced_mss(packet, 88);
  EXPECT_EQ(packet, same);
}

TEST_P(Packets, TruncatedPacketsAreRejected) {
  const auto [name, v6, one, other, third] = GetParam();
  const auto packet = syn(v6, address(one), address(other));
  for (std::size_t bytes = 0; bytes < packet.size(); ++bytes)
    EXPECT_FALSE(TcpPacket::find(Bytes(packet).first(bytes))) << bytes;
  auto padded = packet;
  padded.resize(packet.size() + 6);
  EXPECT_EQ(TcpPacket::find(padded)->bytes, packet.size());
}

INSTANTIATE_TEST_SUITE_P(Tcp, Packets,
                         ::testing::Values(Version{"v4", false, "10.0.0.1", "10.0.0.2", "240.0.255.7"},
                                           Version{"v6", true, "fd00::1", "fd00::2", "2001:db8::ff07"}),
                         [](const auto& one) { return one.param.name; });

TEST(TcpPacket, LaterFragmentHasNoTcpHeader) {
  auto packet = syn(false, address("10.0.0.1"), address("10.0.0.2"));
  packet[7] = 1;
  const auto tcp = TcpPacket::find(packet);
  ASSERT_TRUE(tcp);
  EXPECT_FALSE(tcp->first);
  EXPECT_EQ(tcp->flags(packet), 0);
  const std::vector<std::uint8_t> behind(packet.begin() + 20, packet.end());
  tcp->set_address(packet, End::source, address("10.0.0.9"));
  EXPECT_EQ(std::vector<std::uint8_t>(packet.begin() + 20, packet.end()), behind);
}

TEST(TcpPacket, UdpIsRejected) {
  auto packet = syn(false, address("10.0.0.1"), address("10.0.0.2"));
  packet[9] = 17;
  EXPECT_FALSE(TcpPacket::find(packet));
}

}  // namespace
}  // namespace rdmawire::replay
