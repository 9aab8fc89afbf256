#include "replay/streams/tcp_frames.hpp"

#include <gtest/gtest.h>

#include "dissectors/protocol/testing.hpp"

namespace rdmawire::replay {
namespace {

using rdmawire::testing::from_hex;

TcpFrame between() {
  TcpFrame frame;
  frame.from_mac = 0x020000000c01;
  frame.to_mac = 0x020000000001;
  frame.from = {IpAddress::v4(0x0a0000c8), 40000};
  frame.to = {IpAddress::v4(0x0a000001), 7471};
  return frame;
}

TEST(TcpFrames, SynHasMssOptionAndNoAckFlag) {
  TcpFrame frame = between();
  frame.seq = 0x01020304;
  frame.syn = true;
  frame.mss = 1460;
  // RFC 791, 3.1 and RFC 9293, 3.1: 44 bytes, data offset 6, SYN, kind 2 of 4 bytes.
  const auto bytes = frame.encode();
  ASSERT_EQ(bytes.size(), 14U + 44U);
  EXPECT_EQ(std::vector<std::uint8_t>(bytes.begin(), bytes.begin() + 14), from_hex("020000000001020000000c010800"));
  EXPECT_EQ(std::vector<std::uint8_t>(bytes.begin() + 14, bytes.begin() + 24), from_hex("4500002c000040004006"));
  EXPECT_EQ(std::vector<std::uint8_t>(bytes.begin() + 34, bytes.begin() + 50),
            from_hex("9c401d2f01020304000000006002ffff"));
  EXPECT_EQ(std::vector<std::uint8_t>(bytes.begin() + 54, bytes.end()), from_hex("020405b4"));
  EXPECT_EQ(frame.length(), 1U);
}

/// Sum of the datagram's words and of the pseudo header: all ones if the checksum is valid. RFC 1071.
std::uint32_t sum_of(Bytes bytes, std::uint32_t begin) {
  std::uint64_t sum = begin;
  for (std::size_t i = 0; i < bytes.size(); ++i) sum += static_cast<std::uint32_t>(bytes[i]) << (i % 2 == 0 ? 8 : 0);
  while (sum > 0xffff) sum = (sum & 0xffff) + (sum >> 16);
  return static_cast<std::uint32_t>(sum);
}

TEST(TcpFrames, ChecksumsAreValid) {
  TcpFrame frame = between();
  frame.ack_number = 77;
  frame.fin = true;
  const std::vector<std::uint8_t> payload{1, 2, 3, 4, 5};
  frame.payload = payload;
  const auto bytes = frame.encode();
  ASSERT_EQ(bytes.size(), 14U + 20 + 20 + 5);
  EXPECT_EQ(bytes[14 + 20 + 13], 0x19);  // ACK, PSH, FIN
  EXPECT_EQ(sum_of(Bytes(bytes).subspan(14, 20), 0), 0xffffU);
  const std::uint32_t pseudo = 0x0a00 + 0x00c8 + 0x0a00 + 0x0001 + 6 + 25;
  EXPECT_EQ(sum_of(Bytes(bytes).subspan(34), pseudo), 0xffffU);
  EXPECT_EQ(frame.length(), 6U);
}

}  // namespace
}  // namespace rdmawire::replay
