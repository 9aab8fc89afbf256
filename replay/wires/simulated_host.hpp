#pragma once
/// A simulated host at the remote end of a wire. It handles received frames and timers, and outputs frames with their
/// transmission times. It is free of I/O: the caller passes the time, and calls do not block.

#include <cstdint>
#include <limits>
#include <vector>

#include "dissectors/protocol/bits.hpp"

namespace rdmawire::replay {

/// Frames sent by a simulated host, in call order.
class SimulatedHostOutput {
 public:
  struct Frame {
    std::vector<std::uint8_t> bytes;
    std::int64_t time = 0;
  };
  /// Sends a frame at `time`, or immediately if that time has passed.
  void send(std::vector<std::uint8_t> frame, std::int64_t time = 0) { frames.push_back({std::move(frame), time}); }

  std::vector<Frame> frames;
};

/// Times are nanoseconds of the wire's clock and never decrease between calls.
class SimulatedHost {
 public:
  static constexpr std::int64_t never = std::numeric_limits<std::int64_t>::max();

  SimulatedHost() = default;
  SimulatedHost(const SimulatedHost&) = delete;
  SimulatedHost& operator=(const SimulatedHost&) = delete;
  virtual ~SimulatedHost() = default;

  /// Handles a received frame, which starts with the link header and has no frame check sequence.
  virtual void arrived(Bytes frame, std::int64_t time, SimulatedHostOutput& output) = 0;
  /// Time of the next timer.
  [[nodiscard]] virtual std::int64_t wakes() const { return never; }
  /// Handles the timer. `time` is not before wakes().
  virtual void woken(std::int64_t /*time*/, SimulatedHostOutput& /*output*/) {}
};

}  // namespace rdmawire::replay
