// SPDX-License-Identifier: GPL-2.0-or-later
#include "dissectors/wireshark/data_order.hpp"

#include <gtest/gtest.h>

#include <string>

namespace rdmawire::wireshark {
namespace {

/// The data as text: the letter of each packet, and the number of missing packets.
class Text final : public DataSink {
 public:
  std::string text;
  void data(const FollowedData& data) override { text.append(data.bytes.begin(), data.bytes.end()); }
  void missing(std::uint64_t packets) override { text += "[" + std::to_string(packets) + "]"; }
};

FollowedData letter(char one, std::uint32_t frame = 1) { return {frame, {static_cast<std::uint8_t>(one)}}; }

TEST(ArrivalOrder, RetransmittedPacketsAreIgnored) {
  ArrivalOrder order;
  Text text;
  for (const char one : {'a', 'b', 'a', 'b', 'c'})
    order.add(static_cast<std::uint32_t>(one), 1, letter(one), false, true, text);
  EXPECT_EQ(text.text, "abc");
}

TEST(ArrivalOrder, DataAfterAGapWaitsForTheMissingPackets) {
  ArrivalOrder order;
  Text text;
  order.add(0, 1, letter('a'), false, true, text);
  order.add(3, 1, letter('d'), true, true, text);
  order.add(4, 1, letter('e'), false, true, text);
  EXPECT_EQ(text.text, "a");
  order.add(1, 1, letter('b'), false, true, text);
  order.add(2, 1, letter('c'), false, true, text);
  EXPECT_EQ(text.text, "abcde");
}

TEST(ArrivalOrder, AcknowledgedGapIsMissing) {
  ArrivalOrder order;
  Text text;
  order.add(0, 1, letter('a'), false, true, text);
  order.add(3, 1, letter('d'), true, true, text);
  order.acknowledged(1, text);
  EXPECT_EQ(text.text, "a");
  order.acknowledged(2, text);
  EXPECT_EQ(text.text, "a[2]d");
  order.add(4, 1, letter('e'), false, true, text);
  EXPECT_EQ(text.text, "a[2]de");
}

TEST(ArrivalOrder, EachGapIsResolvedSeparately) {
  ArrivalOrder order;
  Text text;
  order.add(0, 1, letter('a'), false, true, text);
  order.add(2, 1, letter('c'), true, true, text);
  order.add(4, 1, letter('e'), true, true, text);
  order.acknowledged(2, text);
  EXPECT_EQ(text.text, "a[1]c");
  order.add(3, 1, letter('d'), false, true, text);
  EXPECT_EQ(text.text, "a[1]cde");
}

TEST(ArrivalOrder, GapOfUnreliableServiceDoesNotWait) {
  ArrivalOrder order;
  Text text;
  order.add(0xffffff, 1, letter('a'), false, false, text);
  order.add(2, 1, letter('d'), true, false, text);
  EXPECT_EQ(text.text, "a[2]d");
}

TEST(ArrivalOrder, HeldDataIsLimited) {
  ArrivalOrder order;
  Text text;
  order.add(0, 1, letter('a'), false, true, text);
  FollowedData large{1, std::vector<std::uint8_t>(ArrivalOrder::max_held_bytes + 1)};
  order.add(2, 1, large, true, true, text);
  EXPECT_EQ(text.text.substr(0, 4), "a[1]");
  EXPECT_EQ(text.text.size(), 4 + large.bytes.size());
}

TEST(ArrivalOrder, HeldPacketsAreLimited) {
  ArrivalOrder order;
  Text text;
  order.add(0, 1, letter('a'), false, true, text);
  const auto last = static_cast<std::uint32_t>(ArrivalOrder::max_held_packets * 2);
  for (std::uint32_t psn = 2; psn <= last; psn += 2) order.add(psn, 1, {1, {}}, true, true, text);
  EXPECT_EQ(text.text, "a");
  order.add(last + 2, 1, letter('b'), true, true, text);
  EXPECT_EQ(text.text, "a[1]");
  order.add(1, 1, letter('l'), false, true, text);
  EXPECT_EQ(text.text, "a[1]l");
}

TEST(ArrivalOrder, HeldDataIsPassedAtTheEnd) {
  ArrivalOrder order;
  Text text;
  order.add(0, 1, letter('a'), false, true, text);
  order.add(3, 1, letter('d'), true, true, text);
  order.add(6, 1, letter('g'), true, true, text);
  order.add(4, 1, letter('e'), false, true, text);
  EXPECT_EQ(text.text, "a");
  order.finish(text);
  EXPECT_EQ(text.text, "a[2]de[1]g");
}

TEST(KnownOrder, AbsentFramesDoNotDelayTheOthers) {
  KnownOrder order({1, 2, 6, 3, 4, 7, 5, 9, 8});
  Text text;
  order.add(letter('b', 2), 0, text);
  order.add(letter('d', 3), 0, text);
  order.add(letter('e', 4), 0, text);
  EXPECT_EQ(text.text, "b");
  order.add(letter('f', 7), 0, text);
  EXPECT_EQ(text.text, "bdef");
  order.add(letter('h', 8), 1, text);
  EXPECT_EQ(text.text, "bdef");
  order.finish(text);
  EXPECT_EQ(text.text, "bdef[1]h");
}

TEST(KnownOrder, HeldDataIsLimited) {
  const FollowedData large{1, std::vector<std::uint8_t>(KnownOrder::max_held_bytes + 1)};
  KnownOrder order({2, 1});
  Text text;
  order.add(large, 0, text);
  EXPECT_EQ(text.text.size(), large.bytes.size());
  order.add(letter('a', 2), 0, text);
  EXPECT_EQ(text.text.back(), 'a');
}

TEST(KnownOrder, PacketsAreInPsnOrderAndOnce) {
  KnownOrder order({1, 4, 2, 3});
  Text text;
  order.add(letter('a', 1), 0, text);
  order.add(letter('c', 2), 0, text);
  order.add(letter('d', 3), 2, text);
  EXPECT_EQ(text.text, "a");
  order.add(letter('b', 4), 0, text);
  order.add(letter('b', 5), 0, text);
  EXPECT_EQ(text.text, "abc[2]d");
}

}  // namespace
}  // namespace rdmawire::wireshark
