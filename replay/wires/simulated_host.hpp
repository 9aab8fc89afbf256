#pragma once
/// A program that lives at the other end of a wire, as pure functions of time: it is told when a frame arrives and when
/// it is woken, and answers with frames and their times. It reads no clock and never waits.

#include <cstdint>
#include <limits>
#include <vector>

#include "dissectors/protocol/bits.hpp"

namespace rdmawire::replay {

/// What a station sends, in the order in which it says so.
class SimulatedHostOutput {
 public:
  struct Frame {
    std::vector<std::uint8_t> bytes;
    std::int64_t time = 0;
  };
  /// A frame leaves at `time`; at the time of the call when that has passed.
  void send(std::vector<std::uint8_t> frame, std::int64_t time = 0) { frames.push_back({std::move(frame), time}); }

  std::vector<Frame> frames;
};

/// Times are nanoseconds of the wire's clock, and never go back from call to call.
class SimulatedHost {
 public:
  static constexpr std::int64_t never = std::numeric_limits<std::int64_t>::max();

  SimulatedHost() = default;
  SimulatedHost(const SimulatedHost&) = delete;
  SimulatedHost& operator=(const SimulatedHost&) = delete;
  virtual ~SimulatedHost() = default;

  /// A frame from the link header on, without frame check sequence, is there.
  virtual void arrived(Bytes frame, std::int64_t time, SimulatedHostOutput& output) = 0;
  /// When it wants to be woken next.
  [[nodiscard]] virtual std::int64_t wakes() const { return never; }
  /// It is `time`, which is not before wakes().
  virtual void woken(std::int64_t /*time*/, SimulatedHostOutput& /*output*/) {}
};

}  // namespace rdmawire::replay
