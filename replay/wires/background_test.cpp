#include "replay/wires/background.hpp"

#include <gtest/gtest.h>
#include <poll.h>
#include <unistd.h>

#include <filesystem>
#include <thread>
#include <vector>

#include "replay/wires/pair.hpp"
#include "replay/wires/unix.hpp"

namespace rdmawire::replay {
namespace {

constexpr std::int64_t second = 1'000'000'000;

std::vector<std::uint8_t> numbered(std::uint32_t number) {
  std::vector<std::uint8_t> frame(64, 0);
  store_be(frame.data(), 4, number);
  return frame;
}

// As with qemu: a datagram socket queues net.unix.max_dgram_qlen frames, often 10.
TEST(BackgroundWire, PeerDoesNotBlockWhileReceiverIsBusy) {
  const std::string directory = "/tmp/rdmawire-background-" + std::to_string(getpid());
  std::filesystem::create_directory(directory);
  auto far = open_unix_wire({.path = directory + "/near", .local = directory + "/far"});
  auto near = open_unix_wire({.path = directory + "/far", .local = directory + "/near"});
  ASSERT_TRUE(far && near);
  const auto wire = read_in_background(std::move(*near));
  constexpr std::uint32_t many = 2000;
  for (std::uint32_t i = 0; i < many; ++i) {
    const std::int64_t until = (*far)->now() + 5 * second;
    while (!(*far)->send(numbered(i))) ASSERT_TRUE((*far)->writable(until).value()) << "frame " << i;
  }
  const std::int64_t sent_by = wire->now();
  for (std::uint32_t i = 0; i < many; ++i) {
    const auto received = wire->receive(wire->now() + 5 * second);
    ASSERT_TRUE(received && *received);
    ASSERT_EQ(load_be<4>((*received)->frame.data()), i);
    EXPECT_LE((*received)->time, sent_by + second / 10) << "time of receive() instead of the arrival time";
  }
  EXPECT_EQ(wire->counters().received, many);
  EXPECT_EQ(wire->counters().dropped, 0U);
  std::filesystem::remove_all(directory);
}

TEST(BackgroundWire, DescriptorSignalsArrival) {
  auto [a, b] = make_wire_pair();
  const auto wire = read_in_background(std::move(b));
  pollfd wanted{wire->descriptor(), POLLIN, 0};
  EXPECT_FALSE(wire->receive(0).value());
  EXPECT_EQ(poll(&wanted, 1, 0), 0);
  EXPECT_FALSE(wire->receive(wire->now() + second / 100).value()) << "no frame before the deadline";
  ASSERT_TRUE(a->send(numbered(7)));
  EXPECT_EQ(poll(&wanted, 1, 5000), 1);
  EXPECT_EQ(load_be<4>(wire->receive(0).value()->frame.data()), 7U);
  ASSERT_TRUE(wire->send(numbered(8)));
  EXPECT_EQ(load_be<4>(a->receive(a->now() + second).value()->frame.data()), 8U);
  EXPECT_EQ(wire->counters().sent, 1U);
}

TEST(BackgroundWire, FramesBeyondLimitAreDroppedAndCounted) {
  auto [a, b] = make_wire_pair();
  const auto wire = read_in_background(std::move(b), {.max_bytes = 128});
  for (std::uint32_t i = 0; i < 5; ++i) ASSERT_TRUE(a->send(numbered(i)));
  const std::int64_t until = wire->now() + 5 * second;
  while (wire->counters().dropped < 3 && wire->now() < until) std::this_thread::yield();
  EXPECT_EQ(wire->counters().dropped, 3U);
  EXPECT_EQ(load_be<4>(wire->receive(until).value()->frame.data()), 0U);
  EXPECT_EQ(load_be<4>(wire->receive(until).value()->frame.data()), 1U);
  EXPECT_FALSE(wire->receive(0).value());
}

TEST(BackgroundWire, PeerCloseIsReportedAfterItsFrames) {
  auto [a, b] = make_wire_pair();
  const auto wire = read_in_background(std::move(b));
  ASSERT_TRUE(a->send(numbered(1)));
  a->close();
  EXPECT_TRUE(wire->receive(wire->now() + 5 * second).value());
  const auto end = wire->receive(wire->now() + 5 * second);
  ASSERT_FALSE(end);
  EXPECT_EQ(end.error().kind, WireError::Kind::down);
  wire->close();
  wire->close();
  EXPECT_EQ(wire->receive(0).error().kind, WireError::Kind::closed);
}

}  // namespace
}  // namespace rdmawire::replay
