#include "replay/wires/pair.hpp"

#include <gtest/gtest.h>
#include <poll.h>

#include <array>
#include <thread>
#include <vector>

#include "replay/wires/sending.hpp"

namespace rdmawire::replay {
namespace {

constexpr std::int64_t second = 1'000'000'000;

std::vector<std::uint8_t> numbered(std::uint32_t number) {
  std::vector<std::uint8_t> frame(64, 0);
  store_be(frame.data(), 4, number);
  return frame;
}

TEST(WirePair, SentFrameArrivesAtOtherEnd) {
  const auto [a, b] = make_wire_pair();
  EXPECT_EQ(a->name(), "pair:a");
  ASSERT_TRUE(a->send(numbered(1)));
  ASSERT_TRUE(b->send(numbered(2)));
  const auto at_b = b->receive(b->now() + second), at_a = a->receive(a->now() + second);
  ASSERT_TRUE(at_b && *at_b && at_a && *at_a);
  EXPECT_EQ(load_be<4>((*at_b)->frame.data()), 1U);
  EXPECT_EQ(load_be<4>((*at_a)->frame.data()), 2U);
  EXPECT_FALSE(a->receive(0).value());
}

TEST(WirePair, FramesArriveAtTheirTimeInOrder) {
  const auto [a, b] = make_wire_pair();
  const auto one = numbered(1), two = numbered(2);
  const std::int64_t at = a->now() + 5'000'000;
  const std::array frames{Outgoing{one, at}, Outgoing{two, 0}};
  ASSERT_EQ(a->send(frames).value(), 2U);
  EXPECT_LT(a->now(), at);
  pollfd wanted{b->descriptor(), POLLIN, 0};
  EXPECT_EQ(poll(&wanted, 1, 0), 0) << "readable before the frame is due";
  EXPECT_FALSE(b->receive(0).value());
  EXPECT_EQ(poll(&wanted, 1, 1000), 1);
  const auto first = b->receive(0);
  ASSERT_TRUE(first && *first);
  EXPECT_EQ((*first)->time, at);
  EXPECT_GE(b->now(), at);
  EXPECT_EQ(load_be<4>(b->receive(0).value()->frame.data()), 2U);
  EXPECT_EQ(poll(&wanted, 1, 0), 0);
}

TEST(WirePair, QueueIsBounded) {
  const auto [a, b] = make_wire_pair({.name = "short", .frames = 3, .max_bytes = 100});
  const auto frame = numbered(1);
  const std::vector<Outgoing> five(5, Outgoing{frame, 0});
  EXPECT_EQ(a->send(five).value(), 3U);
  EXPECT_EQ(a->send(frame).error().kind, WireError::Kind::full);
  EXPECT_EQ(a->writable(a->now() + 1'000'000).value(), false);
  ASSERT_TRUE(b->receive(0).value());
  EXPECT_EQ(a->writable(0).value(), true);
  EXPECT_EQ(a->send(std::vector<std::uint8_t>(101)).error().kind, WireError::Kind::frame);
  EXPECT_TRUE(a->send(frame));
}

TEST(WirePair, ClosedPeerIsDownAfterItsFrames) {
  auto [a, b] = make_wire_pair();
  ASSERT_TRUE(a->send(numbered(7)));
  a->close();
  a->close();
  EXPECT_EQ(a->send(numbered(8)).error().kind, WireError::Kind::closed);
  EXPECT_TRUE(b->receive(0).value());
  EXPECT_EQ(b->receive(Wire::forever).error().kind, WireError::Kind::down);
  EXPECT_EQ(b->send(numbered(8)).error().kind, WireError::Kind::down);
}

TEST(WirePair, ConcurrentEndsKeepAllFramesInOrder) {
  constexpr std::uint32_t count = 20'000;
  const auto [a, b] = make_wire_pair({.name = "pair", .frames = 64, .max_bytes = 100});
  std::thread sender([&wire = *a] {
    for (std::uint32_t i = 0; i < count; ++i) {
      const auto frame = numbered(i);
      const Outgoing outgoing{frame, 0};
      if (send_all(wire, std::span(&outgoing, 1), wire.now() + 20 * second).value_or(0) != 1) return;
    }
  });
  std::uint32_t next = 0;
  for (; next < count; ++next) {
    const auto got = b->receive(b->now() + 20 * second);
    if (!got || !*got || load_be<4>((*got)->frame.data()) != next) break;
  }
  EXPECT_EQ(next, count);
  b->close();
  sender.join();
}

}  // namespace
}  // namespace rdmawire::replay
