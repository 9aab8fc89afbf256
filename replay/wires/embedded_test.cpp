#include "replay/wires/embedded.hpp"

#include <gtest/gtest.h>

#include <array>
#include <optional>

namespace rdmawire::replay {
namespace {

// Echoes each frame after one millisecond and sends one frame at `alarm`.
class Echo final : public SimulatedHost {
 public:
  void arrived(Bytes frame, std::int64_t time, SimulatedHostOutput& output) override {
    arrivals.push_back(time);
    output.send({frame.begin(), frame.end()}, time + 1'000'000);
  }
  [[nodiscard]] std::int64_t wakes() const override { return alarm; }
  void woken(std::int64_t time, SimulatedHostOutput& output) override {
    woken_at.push_back(time);
    output.send(std::vector<std::uint8_t>(20, 0xaa));
    if (!stubborn) alarm = never;
  }
  std::vector<std::int64_t> arrivals, woken_at;
  std::int64_t alarm = never;
  bool stubborn = false;
};

TEST(EmbeddedWire, ClockJumpsToNextFrame) {
  Echo echo;
  EmbeddedWire wire(echo);
  EXPECT_EQ(wire.now(), 0);
  ASSERT_TRUE(wire.send(std::vector<std::uint8_t>(14, 1)));
  const auto got = wire.receive(60'000'000'000);
  ASSERT_TRUE(got && *got);
  EXPECT_EQ((*got)->time, 1'000'000);
  EXPECT_EQ(wire.now(), 1'000'000);
  EXPECT_FALSE(wire.receive(60'000'000'000).value());
  EXPECT_EQ(wire.now(), 60'000'000'000) << "a minute passes immediately";
}

TEST(EmbeddedWire, FramesReachHostAtTheirTime) {
  Echo echo;
  EmbeddedWire wire(echo, {.name = "e", .delay = 500, .max_bytes = 1500, .frames = 10, .wakes_at_once = 10});
  const std::vector<std::uint8_t> frame(14, 1);
  const std::array frames{Outgoing{frame, 5'000'000}, Outgoing{frame, 2}};
  ASSERT_EQ(wire.send(frames).value(), 2U);
  EXPECT_FALSE(wire.receive(5'000'400).value());
  EXPECT_TRUE(echo.arrivals.empty());
  ASSERT_EQ(wire.receive(Wire::forever).value()->time, 6'001'000);
  EXPECT_EQ(echo.arrivals, (std::vector<std::int64_t>{5'000'500, 5'000'500}));
}

TEST(EmbeddedWire, TimerFiresDuringReceiveAndTimeZeroOnlyPolls) {
  Echo echo;
  echo.alarm = 7'000;
  EmbeddedWire wire(echo);
  EXPECT_FALSE(wire.receive(0).value());
  EXPECT_TRUE(echo.woken_at.empty());
  const auto got = wire.receive(10'000);
  ASSERT_TRUE(got && *got);
  EXPECT_EQ((*got)->time, 7'000);
  EXPECT_EQ(echo.woken_at, std::vector<std::int64_t>{7'000});
  EXPECT_FALSE(wire.receive(Wire::forever).value()) << "no further event";
  EXPECT_EQ(wire.now(), 7'000);
}

TEST(EmbeddedWire, HostWithoutTimeProgressIsAnError) {
  class Stuck final : public SimulatedHost {
    void arrived(Bytes, std::int64_t, SimulatedHostOutput&) override {}
    [[nodiscard]] std::int64_t wakes() const override { return 5; }
  } stuck;
  EmbeddedWire wire(stuck);
  const auto got = wire.receive(10);
  ASSERT_FALSE(got);
  EXPECT_NE(got.error().message.find("its time must advance"), std::string::npos);
}

TEST(EmbeddedWire, QueuesAreBounded) {
  Echo echo;
  EmbeddedWire wire(echo, {.name = "e", .delay = 0, .max_bytes = 100, .frames = 4, .wakes_at_once = 10});
  const std::vector<std::uint8_t> frame(14, 1);
  const std::vector<Outgoing> ten(10, Outgoing{frame, 0});
  EXPECT_EQ(wire.send(ten).value(), 4U);
  EXPECT_FALSE(wire.receive(0).value());
  EXPECT_EQ(wire.send(ten).value(), 4U);
  EXPECT_FALSE(wire.receive(0).value());
  EXPECT_EQ(wire.counters().dropped, 4U);
  wire.close();
  EXPECT_EQ(wire.receive(0).error().kind, WireError::Kind::closed);
}

}  // namespace
}  // namespace rdmawire::replay
