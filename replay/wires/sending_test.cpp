#include "replay/wires/sending.hpp"

#include <gtest/gtest.h>

#include <vector>

namespace rdmawire::replay {
namespace {

TEST(SendWhenDue, FramesWithEqualTimeAreSentTogether) {
  const std::vector<std::uint8_t> bytes(60, 1);
  const std::int64_t begin = wire_clock::now();
  std::vector<Outgoing> frames(5, Outgoing{bytes, 0});
  frames[3].time = begin + 3'000'000;
  frames[4].time = begin + 6'000'000;
  std::vector<std::size_t> runs;
  std::size_t first = 0;  // frame of the run
  const auto sent = send_when_due(frames, 2, [&](std::span<const Outgoing> run) -> WireResult<std::size_t> {
    const std::int64_t now = wire_clock::now();
    for (std::size_t i = 0; i < run.size(); ++i) EXPECT_GE(now, frames[first + i].time) << "frame " << first + i;
    first += run.size();
    runs.push_back(run.size());
    return run.size();
  });
  EXPECT_EQ(sent.value(), 5U);
  // On a busy machine, later frames can be due together, too.
  ASSERT_GE(runs.size(), 3U);
  EXPECT_EQ(runs[0], 2U);
  for (const std::size_t run : runs) EXPECT_LE(run, 2U);
}

TEST(SendWhenDue, ErrorAfterFirstFrameIsReturnedByNextCall) {
  const std::vector<std::uint8_t> bytes(60, 1);
  const std::vector<Outgoing> frames(4, Outgoing{bytes, 0});
  int calls = 0;
  const auto failing = [&](std::span<const Outgoing> run) -> WireResult<std::size_t> {
    if (calls++ == 1) return tl::unexpected(WireError{WireError::Kind::down, 0, "down"});
    return run.size();
  };
  EXPECT_EQ(send_when_due(frames, 2, failing).value(), 2U);
  calls = 1;
  EXPECT_EQ(send_when_due(frames, 2, failing).error().kind, WireError::Kind::down);
}

TEST(WireClock, SleepSpinsOnlyAtTheEnd) {
  const std::int64_t until = wire_clock::now() + 2'000'000;
  wire_clock::sleep_until(until, 500'000);
  EXPECT_GE(wire_clock::now(), until);
  EXPECT_EQ(wire_clock::poll_milliseconds(0), 0);
  EXPECT_EQ(wire_clock::poll_milliseconds(Wire::forever), -1);
}

}  // namespace
}  // namespace rdmawire::replay
