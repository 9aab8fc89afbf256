#include "replay/player/frame_lengths.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "dissectors/protocol/crc.hpp"
#include "dissectors/protocol/decode.hpp"
#include "dissectors/protocol/encode.hpp"
#include "replay/faults/frames_for_test.hpp"

namespace rdmawire::replay {
namespace {

using ByteVector = std::vector<std::uint8_t>;
namespace frames = rdmawire::replay::testing;

/// A RoCEv2 SEND with this number of payload bytes.
ByteVector roce(std::size_t bytes) {
  Frame frame = frames::between(true) / Value<Udp>() / Value<Bth>().set<"opcode">(4).set<"dest_qp">(0x11);
  for (std::size_t i = 0; i < bytes; ++i) frame.payload.push_back(static_cast<std::uint8_t>(i));
  return frame.encode();
}

ByteVector ipv6_udp(std::size_t bytes) {
  Frame frame = Value<Ethernet>().set<"dst">(2).set<"src">(1) / Value<Ipv6>() /
                Value<Udp>().set<"src_port">(9).set<"dst_port">(10);
  for (std::size_t i = 0; i < bytes; ++i) frame.payload.push_back(static_cast<std::uint8_t>(i));
  return frame.encode();
}

void expect_valid(const ByteVector& frame) {
  const HeaderStack stack = decode(frame);
  EXPECT_TRUE(stack.findings().empty());
  const Layer& ip = stack.layers()[stack.network];
  if (ip.header == &info<Ipv4>) {
    EXPECT_EQ(internet_checksum(stack.bytes_of(ip)), 0);
  }
  if (stack.find(info<Bth>)) {
    ASSERT_EQ(stack.icrc.length, 4U);
    EXPECT_EQ(load_le(frame.data() + stack.icrc.offset, 4), compute_icrc(stack));
  }
}

TEST(ShortenFrame, RoceFrameKeepsValidLengthsAndIcrc) {
  const ByteVector whole = roce(1001);
  for (const std::size_t most : {std::size_t{999}, std::size_t{500}, std::size_t{60}, std::size_t{58}}) {
    ByteVector frame = whole;
    const auto length = shorten_frame(frame, LinkType::ethernet, most);
    ASSERT_TRUE(length) << most;
    EXPECT_LE(*length, most);
    EXPECT_GT(*length + 4, most) << "the payload is shortened to a multiple of 4 bytes";
    frame.resize(*length);
    expect_valid(frame);
    const HeaderStack stack = decode(frame);
    EXPECT_EQ(stack.get<Bth>()->get<"pad">(), 0U);
    EXPECT_EQ(stack.payload.length, *length - 58);
    EXPECT_TRUE(std::equal(whole.begin() + 54, whole.begin() + 54 + stack.payload.length, frame.begin() + 54));
  }
  ByteVector frame = whole;
  EXPECT_FALSE(shorten_frame(frame, LinkType::ethernet, 57)) << "the headers and the ICRC have 58 bytes";
}

TEST(ShortenFrame, TcpChecksumIsValid) {
  ByteVector frame = frames::tcp(true, 1, 300);
  const auto length = shorten_frame(frame, LinkType::ethernet, 200);
  ASSERT_EQ(length, 200U);
  frame.resize(*length);
  expect_valid(frame);
  EXPECT_EQ(decode(frame).get<Ipv4>()->get<"total_length">(), 186U);
  // An independent computation of the checksum.
  std::uint32_t sum = 6 + static_cast<std::uint32_t>(frame.size() - 34);
  for (std::size_t at = 26; at < frame.size(); at += 2)
    sum += static_cast<std::uint32_t>(load_be<2>(frame.data() + at));
  while (sum >> 16) sum = (sum & 0xffff) + (sum >> 16);
  EXPECT_EQ(sum, 0xffffU);
}

TEST(ShortenFrame, BytesAfterThePacketDoNotBecomePayload) {
  for (const bool v4 : {true, false}) {
    ByteVector frame = v4 ? roce(100) : ipv6_udp(100);
    const std::size_t packet = frame.size();
    frame.resize(packet + 200, 0xee);
    const auto length = shorten_frame(frame, LinkType::ethernet, packet + 50);
    ASSERT_EQ(length, packet);
    frame.resize(*length);
    EXPECT_EQ(frame, v4 ? roce(100) : ipv6_udp(100));
  }
  // The minimum frame length of Ethernet requires padding.
  ByteVector padded = ipv6_udp(1);
  const std::size_t packet = padded.size();
  padded.resize(packet + 4, 0xee);
  EXPECT_EQ(shorten_frame(padded, LinkType::ethernet, packet + 2), packet);
  EXPECT_EQ(decode(Bytes(padded).first(packet)).get<Ipv6>()->get<"payload_length">(), 9U);
}

TEST(ShortenFrame, OtherFramesAreTruncated) {
  ByteVector arp(64, 0);
  store_be(arp.data() + 12, 2, 0x0806);
  EXPECT_EQ(shorten_frame(arp, LinkType::ethernet, 50), 50U);
}

TEST(FragmentFrame, Ipv4FragmentsContainThePayloadInOrder) {
  const ByteVector whole = roce(1001);
  for (const std::size_t most : {std::size_t{42}, std::size_t{100}, std::size_t{514}, std::size_t{1049}}) {
    const auto fragments = fragment_frame(whole, LinkType::ethernet, most, 0);
    ASSERT_FALSE(fragments.empty());
    ByteVector payload;
    for (std::size_t i = 0; i < fragments.size(); ++i) {
      const ByteVector& fragment = fragments[i];
      EXPECT_LE(fragment.size(), most);
      const HeaderStack stack = decode(fragment);
      const auto ip = stack.get<Ipv4>();
      ASSERT_TRUE(ip);
      EXPECT_EQ(internet_checksum(Bytes(fragment).subspan(14, 20)), 0);
      EXPECT_EQ(ip->get<"total_length">() + 14, fragment.size());
      EXPECT_EQ(ip->get<"fragment_offset">() * 8, payload.size());
      EXPECT_EQ(ip->get<"mf">(), i + 1 < fragments.size() ? 1U : 0U);
      EXPECT_EQ(ip->get<"identification">(), decode(whole).get<Ipv4>()->get<"identification">());
      payload.insert(payload.end(), fragment.begin() + 34, fragment.end());
    }
    EXPECT_EQ(payload, ByteVector(whole.begin() + 34, whole.end())) << most;
  }
  EXPECT_TRUE(fragment_frame(whole, LinkType::ethernet, 41, 0).empty()) << "the limit is too small for 8 bytes";
}

TEST(FragmentFrame, FragmentOfAFragmentKeepsItsOffset) {
  const auto fragments = fragment_frame(roce(1001), LinkType::ethernet, 514, 0);
  const auto parts = fragment_frame(fragments[1], LinkType::ethernet, 274, 0);
  ASSERT_EQ(parts.size(), 2U);
  EXPECT_EQ(decode(parts[1]).get<Ipv4>()->get<"fragment_offset">(), 90U);
  EXPECT_EQ(decode(parts[1]).get<Ipv4>()->get<"mf">(), 1U);
}

TEST(FragmentFrame, Ipv6FragmentsHaveAFragmentHeader) {
  const ByteVector whole = ipv6_udp(1000);
  const auto fragments = fragment_frame(whole, LinkType::ethernet, 400, 0x12345678);
  ASSERT_EQ(fragments.size(), 3U);
  ByteVector payload;
  for (const ByteVector& fragment : fragments) {
    EXPECT_LE(fragment.size(), 400U);
    EXPECT_EQ(fragment[20], 44);  // next header of the IPv6 header
    EXPECT_EQ(load_be<2>(fragment.data() + 18) + 54, fragment.size());
    EXPECT_EQ(fragment[54], 17);
    EXPECT_EQ(load_be<2>(fragment.data() + 56) >> 3, payload.size() / 8);
    EXPECT_EQ(load_be<4>(fragment.data() + 58), 0x12345678U);
    payload.insert(payload.end(), fragment.begin() + 62, fragment.end());
  }
  EXPECT_EQ(load_be<2>(fragments.back().data() + 56) & 1, 0U);
  EXPECT_EQ(payload, ByteVector(whole.begin() + 54, whole.end()));
}

TEST(FragmentFrame, FramesThatAreNoIpPacketAreNotDivided) {
  ByteVector arp(64, 0);
  store_be(arp.data() + 12, 2, 0x0806);
  EXPECT_TRUE(fragment_frame(arp, LinkType::ethernet, 50, 0).empty());
  ByteVector cut = roce(1001);
  cut.resize(500);
  EXPECT_TRUE(fragment_frame(cut, LinkType::ethernet, 200, 0).empty()) << "a part of the packet is missing";
}

}  // namespace
}  // namespace rdmawire::replay
