#include "replay/host/host.hpp"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "dissectors/protocol/decode.hpp"
#include "dissectors/protocol/icmp.hpp"
#include "dissectors/protocol/ip.hpp"
#include "dissectors/protocol/testing.hpp"

namespace rdmawire::replay {
namespace {

using rdmawire::testing::from_hex;
using ::testing::ElementsAre;

// The host is 02:00:00:00:00:01 with 10.0.0.1 and fd00::1. Its neighbor is 52:54:00:00:00:02 with 10.0.0.2 and fd00::2.
HostOptions options() {
  return {.mac = 0x020000000001, .addresses = {IpAddress::v4(0x0a000001), *IpAddress::parse("fd00::1")}};
}

constexpr std::string_view arp_question =
    "ffffffffffff 525400000002 0806 0001 0800 06 04 0001 525400000002 0a000002 000000000000 0a000001";
constexpr std::string_view ping =
    "020000000001 525400000002 0800 4500002000004000400126db 0a000002 0a000001 0800 2102 1234 0003 61626364";
constexpr std::string_view solicitation =
    "3333ff000001 525400000002 86dd 6000000000203aff fd000000000000000000000000000002"
    "ff0200000000000000000001ff000001 8700 2d43 00000000 fd000000000000000000000000000001 0101 525400000002";
constexpr std::string_view ping6 =
    "020000000001 525400000002 86dd 60000000000c3a40 fd000000000000000000000000000002"
    "fd000000000000000000000000000001 8000 aeb6 1234 0003 61626364";

std::vector<std::vector<std::uint8_t>> answers(Host& host, std::string_view question, bool expect_taken = true) {
  SimulatedHostOutput output;
  EXPECT_EQ(host.takes(from_hex(question), 5, output), expect_taken) << question;
  std::vector<std::vector<std::uint8_t>> frames;
  for (auto& frame : output.frames) frames.push_back(std::move(frame.bytes));
  return frames;
}
std::string changed(std::string_view hex, std::size_t byte, std::uint8_t value) {
  auto bytes = from_hex(hex);
  bytes[byte] = value;
  std::string text;
  for (const std::uint8_t b : bytes) text += fmt::format("{:02x}", b);
  return text;
}

TEST(Host, AnswersArp) {
  Host host(options());
  EXPECT_THAT(answers(host, arp_question),
              ElementsAre(from_hex("525400000002 020000000001 0806 0001 0800 06 04 0002 020000000001 0a000001"
                                   "525400000002 0a000002")));
  EXPECT_EQ(host.neighbor(IpAddress::v4(0x0a000002)), 0x525400000002U) << "the sender is learned";
  // An ARP probe, whose sender has no address yet, is also answered. RFC 5227, 2.1.1
  EXPECT_EQ(answers(host,
                    "ffffffffffff 525400000004 0806 0001 0800 06 04 0001 525400000004 00000000 000000000000 "
                    "0a000001")
                .size(),
            1U);
  EXPECT_TRUE(answers(host, changed(arp_question, 41, 9)).empty()) << "for another";
}

TEST(Host, AnswersPing) {
  Host host(options());
  EXPECT_THAT(answers(host, ping),
              ElementsAre(from_hex("525400000002 020000000001 0800 4500002000004000400126db 0a000001 0a000002"
                                   "0000 2902 1234 0003 61626364")));
}

TEST(Host, AnswersNeighborSolicitation) {
  Host host(options());
  const auto frames = answers(host, solicitation);
  ASSERT_EQ(frames.size(), 1U);
  const HeaderStack stack = decode(frames[0]);
  EXPECT_TRUE(stack.findings().empty());
  const auto advertisement = stack.get<NeighborAdvertisement>();
  ASSERT_TRUE(advertisement);
  EXPECT_EQ(advertisement->get<"solicited">(), 1);
  EXPECT_EQ(advertisement->get<"override">(), 1);
  EXPECT_EQ(advertisement->get<"router">(), 0);
  EXPECT_EQ(advertisement->get<"target">()[15], 1);
  EXPECT_EQ(stack.get<NdLinkAddress>()->get<"type">(), 2);
  EXPECT_EQ(stack.get<NdLinkAddress>()->get<"address">(), 0x020000000001U);
  EXPECT_EQ(stack.get<Ipv6>()->get<"hop_limit">(), 255);
  EXPECT_EQ(load_be(frames[0].data(), 6), 0x525400000002U);
  EXPECT_EQ(host.neighbor(*IpAddress::parse("fd00::2")), 0x525400000002U);
}

// Duplicate address detection by another host: the reply is sent to all nodes. RFC 4862, 5.4.3
TEST(Host, DefendsItsAddress) {
  Host host(options());
  const auto frames = answers(host,
                              "3333ff000001 525400000002 86dd 6000000000183aff 00000000000000000000000000000000"
                              "ff0200000000000000000001ff000001 8700 7da5 00000000 fd000000000000000000000000000001");
  ASSERT_EQ(frames.size(), 1U);
  const HeaderStack stack = decode(frames[0]);
  EXPECT_EQ(load_be(frames[0].data(), 6), 0x333300000001U);
  EXPECT_EQ(stack.get<Ipv6>()->get<"dst">()[0], 0xff);
  EXPECT_EQ(stack.get<NeighborAdvertisement>()->get<"solicited">(), 0);
  EXPECT_EQ(stack.get<NeighborAdvertisement>()->get<"override">(), 1);
}

TEST(Host, AnswersPing6AlsoAtItsLinkLocalAddress) {
  Host host(options());
  const auto frames = answers(host, ping6);
  ASSERT_EQ(frames.size(), 1U);
  const HeaderStack stack = decode(frames[0]);
  EXPECT_EQ(stack.get<Icmpv6>()->get<"type">(), icmpv6_type::echo_reply);
  EXPECT_EQ(stack.get<Icmpv6Echo>()->get<"sequence">(), 3);
  EXPECT_EQ(stack.payload.length, 4U);
  EXPECT_EQ(to_string(host.addresses().back()), "fe80::ff:fe00:1");
}

TEST(Host, InvalidAndUnrelatedPacketsAreIgnored) {
  Host host(options());
  EXPECT_TRUE(answers(host, changed(ping, 45, 0x62), false).empty()) << "invalid checksum";
  EXPECT_TRUE(answers(host, changed(ping6, 65, 0x62), false).empty());
  EXPECT_TRUE(answers(host, changed(ping, 5, 0x07), false).empty()) << "another's MAC";
  EXPECT_TRUE(answers(host, changed(solicitation, 21, 64)).empty()) << "not from this link";
  EXPECT_TRUE(answers(host, "020000000001 525400000002 0800 4500001c000040004011", false).empty());
  EXPECT_TRUE(answers(host, "", false).empty());
  HostOptions silent = options();
  silent.answers_ping = false;
  Host quiet(silent);
  EXPECT_TRUE(answers(quiet, ping, false).empty());
}

TEST(Host, ReplyHasVlanTagsOfRequest) {
  Host host(options());
  const auto frames =
      answers(host,
              "ffffffffffff 525400000002 8100 6064 0806 0001 0800 06 04 0001 525400000002 0a000002 000000000000 "
              "0a000001");
  ASSERT_EQ(frames.size(), 1U);
  EXPECT_EQ(std::vector<std::uint8_t>(frames[0].begin() + 12, frames[0].begin() + 18), from_hex("8100 6064 0806"));
}

TEST(Host, ResolveRetriesAndTimesOut) {
  Host host(options());
  SimulatedHostOutput output;
  const IpAddress other = IpAddress::v4(0x0a000002);
  host.resolve(other, 1000, output);
  ASSERT_EQ(output.frames.size(), 1U);
  EXPECT_EQ(output.frames[0].bytes, from_hex("ffffffffffff 020000000001 0806 0001 0800 06 04 0001 020000000001 0a000001"
                                             "000000000000 0a000002"));
  EXPECT_EQ(host.wakes(), 250'001'000);
  host.woken(host.wakes(), output);
  host.woken(host.wakes(), output);
  EXPECT_EQ(output.frames.size(), 3U);
  EXPECT_FALSE(host.unreachable(other));
  host.woken(host.wakes(), output);
  EXPECT_EQ(output.frames.size(), 3U);
  EXPECT_TRUE(host.unreachable(other));
  EXPECT_EQ(host.wakes(), SimulatedHost::never);
  // A new request receives a reply.
  host.resolve(other, 2'000'000'000, output);
  EXPECT_EQ(output.frames.size(), 4U);
  answers(host, "020000000001 525400000002 0806 0001 0800 06 04 0002 525400000002 0a000002 020000000001 0a000001");
  EXPECT_EQ(host.neighbor(other), 0x525400000002U);
  EXPECT_EQ(host.wakes(), SimulatedHost::never);
}

TEST(Host, Ipv6RequestUsesSourceOfSameScope) {
  Host host(options());
  SimulatedHostOutput output;
  host.resolve(*IpAddress::parse("fe80::5054:ff:fe00:2"), 0, output);
  host.resolve(*IpAddress::parse("fd00::2"), 0, output);
  ASSERT_EQ(output.frames.size(), 2U);
  const HeaderStack local = decode(output.frames[0].bytes), global = decode(output.frames[1].bytes);
  EXPECT_EQ(local.get<Ipv6>()->get<"src">()[0], 0xfe);
  EXPECT_EQ(global.get<Ipv6>()->get<"src">()[0], 0xfd);
  EXPECT_EQ(load_be(output.frames[0].bytes.data(), 6), 0x3333ff000002U);
  EXPECT_EQ(global.get<NeighborSolicitation>()->get<"target">()[15], 2);
  EXPECT_EQ(global.get<NdLinkAddress>()->get<"address">(), 0x020000000001U);
}

TEST(Host, NeighborsAreBoundedAndOwnAddressIsNotLearned) {
  HostOptions small = options();
  small.neighbors = 3;
  Host host(small);
  for (int i = 2; i < 9; ++i) answers(host, changed(arp_question, 31, static_cast<std::uint8_t>(i)));
  EXPECT_FALSE(host.neighbor(IpAddress::v4(0x0a000002)));
  EXPECT_TRUE(host.neighbor(IpAddress::v4(0x0a000008)));
  answers(host, changed(arp_question, 31, 1));
  EXPECT_FALSE(host.neighbor(IpAddress::v4(0x0a000001)));
}

TEST(Host, AnnouncesItsAddresses) {
  Host host(options());
  SimulatedHostOutput output;
  host.announce(output);
  ASSERT_EQ(output.frames.size(), 3U);
  EXPECT_EQ(output.frames[0].bytes, from_hex("ffffffffffff 020000000001 0806 0001 0800 06 04 0001 020000000001 0a000001"
                                             "000000000000 0a000001"));
  EXPECT_EQ(decode(output.frames[1].bytes).get<NeighborAdvertisement>()->get<"target">()[0], 0xfd);
}

}  // namespace
}  // namespace rdmawire::replay
