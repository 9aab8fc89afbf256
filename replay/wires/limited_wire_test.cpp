#include "replay/wires/limited_wire.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace rdmawire::replay {
namespace {

using testing::ElementsAre;

/// Records its frames, with a clock set by the test. Accepts `capacity` frames.
class NotedWire final : public Wire {
 public:
  const std::string& name() const override { return name_; }
  const WireCapabilities& capabilities() const override { return capabilities_; }
  std::int64_t now() const override { return time; }
  WireCounters counters() const override { return {}; }
  using Wire::send;
  WireResult<std::size_t> send(std::span<const Outgoing> frames) override {
    std::size_t taken = 0;
    for (; taken < frames.size() && taken < capacity; ++taken) left.push_back(std::max(frames[taken].time, time));
    return taken;
  }
  WireResult<std::optional<Received>> receive(std::int64_t) override { return std::nullopt; }
  void close() override {}

  std::int64_t time = 1000;
  std::size_t capacity = 100;
  std::vector<std::int64_t> left;

 private:
  std::string name_ = "noted";
  WireCapabilities capabilities_;
};

std::vector<std::uint8_t> frame_to(std::uint64_t address) {
  std::vector<std::uint8_t> frame(60);
  store_be(frame.data(), 6, address);
  return frame;
}

TEST(LimitedWire, FramesAfterBurstAreSpaced) {
  NotedWire noted;
  LimitedWire wire(noted, {.frames_per_second = 1'000'000, .burst = 2});  // a frame a microsecond
  const auto frame = frame_to(0x020000000001);
  const std::vector<Outgoing> five(5, Outgoing{frame});
  ASSERT_EQ(wire.send(five).value(), 5U);
  EXPECT_THAT(noted.left, ElementsAre(1000, 1000, 1000, 2000, 3000));
  noted.time = 1'000'000;  // a pause restores one burst
  noted.left.clear();
  ASSERT_EQ(wire.send(five).value(), 5U);
  EXPECT_THAT(noted.left, ElementsAre(1'000'000, 1'000'000, 1'000'000, 1'001'000, 1'002'000));
}

TEST(LimitedWire, RejectedFramesDoNotCount) {
  NotedWire noted;
  LimitedWire wire(noted, {.frames_per_second = 1'000'000, .burst = 0});
  const auto frame = frame_to(0x020000000001);
  const std::vector<Outgoing> two(2, Outgoing{frame});
  noted.capacity = 1;
  ASSERT_EQ(wire.send(two).value(), 1U);
  ASSERT_EQ(wire.send(two).value(), 1U);
  EXPECT_THAT(noted.left, ElementsAre(1000, 2000));
}

TEST(LimitedWire, RequestedTimeIsKept) {
  NotedWire noted;
  LimitedWire wire(noted, {.frames_per_second = 1'000'000, .burst = 0});
  const auto frame = frame_to(0x020000000001);
  ASSERT_EQ(wire.send(std::vector<Outgoing>{{frame, 7000}, {frame, 7000}}).value(), 2U);
  EXPECT_THAT(noted.left, ElementsAre(7000, 8000));
}

TEST(LimitedWire, OtherDestinationsAndGroupsAreRefused) {
  NotedWire noted;
  LimitedWire wire(noted, {.destinations = {0x020000000001}});
  EXPECT_TRUE(wire.send(frame_to(0x020000000001)));
  const auto other = wire.send(frame_to(0x020000000002));
  ASSERT_FALSE(other);
  EXPECT_EQ(other.error().kind, WireError::Kind::forbidden);
  EXPECT_EQ(other.error().message, "noted: frame to 020000000002 refused: the address is not in the allow-list");
  const auto all = wire.send(frame_to(0xffffffffffff));
  ASSERT_FALSE(all);
  EXPECT_THAT(all.error().message, testing::HasSubstr("not permitted"));
  // Frames before a refused frame are sent.
  const auto good = frame_to(0x020000000001), bad = frame_to(0x333300000001);
  EXPECT_EQ(wire.send(std::vector<Outgoing>{{good}, {bad}, {good}}).value(), 1U);
  EXPECT_EQ(noted.left.size(), 2U);
  LimitedWire groups(noted, {.destinations = {0x020000000001}, .groups = true});
  EXPECT_TRUE(groups.send(bad));
}

}  // namespace
}  // namespace rdmawire::replay
