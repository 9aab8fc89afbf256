#include "dissectors/protocol/icmp.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "dissectors/protocol/decode.hpp"
#include "dissectors/protocol/encode.hpp"
#include "dissectors/protocol/ethernet.hpp"
#include "dissectors/protocol/ip.hpp"
#include "dissectors/protocol/testing.hpp"

namespace rdmawire {
namespace {

using ::testing::ElementsAre;
using testing::from_hex;

std::vector<std::string_view> names_of(const HeaderStack& stack) {
  std::vector<std::string_view> names;
  for (const Layer& layer : stack.layers()) names.push_back(layer.header->name);
  return names;
}

// Packets that Linux sent: a ping, and a solicitation for fe80::5054:ff:fe00:3.
constexpr std::string_view ping =
    "525400000003525400000002 0800 4500002c00004000400126cf 0a000002 0a000001"
    "0800 bfb7 0005 0003 000102030405060708090a0b0c0d0e0f";
constexpr std::string_view solicitation =
    "3333ff000003 525400000002 86dd 6000000000203aff fe80000000000000505400fffe000002"
    "ff0200000000000000000001ff000003 8700 8b96 00000000 fe80000000000000505400fffe000003 0101 525400000002";

TEST(Icmp, Ping) {
  const auto bytes = from_hex(ping);
  const HeaderStack stack = decode(bytes);
  EXPECT_TRUE(stack.findings().empty());
  EXPECT_THAT(names_of(stack), ElementsAre("eth", "ip", "icmp", "icmp_echo"));
  EXPECT_EQ(stack.get<Icmp>()->get<"type">(), icmp_type::echo_request);
  EXPECT_EQ(stack.get<IcmpEcho>()->get<"identifier">(), 5);
  EXPECT_EQ(stack.get<IcmpEcho>()->get<"sequence">(), 3);
  EXPECT_EQ(stack.payload.length, 16U);
  EXPECT_EQ(stack.transport, HeaderStack::none);
}

TEST(Icmp, NeighborSolicitation) {
  const auto bytes = from_hex(solicitation);
  const HeaderStack stack = decode(bytes);
  EXPECT_TRUE(stack.findings().empty());
  EXPECT_THAT(names_of(stack), ElementsAre("eth", "ipv6", "icmpv6", "nd_ns", "nd_link_address"));
  EXPECT_EQ(stack.get<NeighborSolicitation>()->get<"target">()[15], 3);
  EXPECT_EQ(stack.get<NdLinkAddress>()->get<"address">(), 0x525400000002U);
  EXPECT_EQ(stack.payload.length, 0U);
}

// The option is longer on InfiniBand: a 20-byte address after two reserved bytes.
TEST(Icmp, LinkAddressOnInfiniBand) {
  const auto bytes = from_hex(
      "3333ff000003 525400000002 86dd 6000000000303aff fe80000000000000505400fffe000002"
      "ff0200000000000000000001ff000003 8700 1a57 00000000 fe80000000000000505400fffe000003"
      "0103 0000 80000405 fe800000000000000002c9020024f636");
  const HeaderStack stack = decode(bytes);
  EXPECT_THAT(names_of(stack), ElementsAre("eth", "ipv6", "icmpv6", "nd_ns", "nd_ipoib_link_address"));
  const auto address = stack.get<NdIpoibLinkAddress>();
  EXPECT_EQ(address->get<"flags.rc">(), 1);
  EXPECT_EQ(address->get<"qp">(), 0x405);
  EXPECT_EQ(address->get<"gid">()[15], 0x36);
  EXPECT_EQ(stack.payload.length, 0U);
  Frame frame = Frame::of(stack);
  EXPECT_EQ(frame.encode(), bytes);
}

// Encoding computes unset checksums and lengths, so the result equals the captured bytes.
TEST(Icmp, ComputedValuesAreCorrect) {
  for (const std::string_view text : {ping, solicitation}) {
    const auto bytes = from_hex(text);
    Frame frame = Frame::of(decode(bytes));
    EXPECT_EQ(frame.encode(), bytes);
    frame.forget_computed();
    EXPECT_EQ(frame.encode(), bytes);
  }
}

TEST(Icmp, InvalidOptions) {
  auto bytes = from_hex(solicitation);
  bytes[79] = 0;  // length of the option
  HeaderStack stack = decode(bytes);
  ASSERT_EQ(stack.findings().size(), 1U);
  EXPECT_EQ(stack.findings()[0].kind, ParseError::Kind::malformed);
  EXPECT_EQ(stack.payload.length, 8U);
  bytes[79] = 2;
  stack = decode(bytes);
  ASSERT_EQ(stack.findings().size(), 1U);
  EXPECT_EQ(stack.findings()[0].needed, 16U);
}

TEST(Icmp, OtherMessagesAndOptionsKeepTheirBytes) {
  auto bytes = from_hex(ping);
  bytes[34] = 3;
  EXPECT_EQ(decode(bytes).payload.length, 20U);
  HeaderValue option(info<NdOption>);
  option.set(*info<NdOption>.find("type"), nd_option::nonce);
  option.set_tail(std::vector<std::uint8_t>{1, 2, 3, 4, 5, 6, 7});
  Frame frame = Frame(Value<Ethernet>() / Value<Ipv6>()) / Value<Icmpv6>().set<"type">(133) /
                Value<RouterSolicitation>() / option;
  const auto sent = frame.encode();
  const HeaderStack stack = decode(sent);
  EXPECT_THAT(names_of(stack), ElementsAre("eth", "ipv6", "icmpv6", "nd_rs", "nd_option"));
  EXPECT_EQ(stack.get<NdOption>()->get<"length">(), 2) << "padded to a whole unit";
}

}  // namespace
}  // namespace rdmawire
