#pragma once
/// Does to frames what a fault program says. Pure: frames, times and sides come in, frames with times come out; it
/// reads no clock, and its randomness has a seed.

#include <cstdint>
#include <deque>
#include <limits>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "replay/faults/program.hpp"

namespace rdmawire::replay {

/// What one rule did to one frame.
struct FaultLogEntry {
  std::uint64_t frame = 0;  ///< in the order of arrival, from 1
  std::int64_t time = 0;    ///< of its arrival, nanoseconds
  std::uint32_t side = 0;   ///< where it came from; 0: a
  std::uint32_t rule = 0;   ///< index in the program
  bool done = false;        ///< false: picked, but it could not be done; `what` says why
  FrameCoordinates coordinates;
  std::string what;  ///< "dropped", "byte 60 turned over by 0x01"
};
/// "frame 214 from a (connection 1, request psn +3, …): dropped by rule 1: drop psn +3 try 1 from a"
std::string to_string(const FaultLogEntry& entry, const FaultProgram& program);

/// A frame that leaves.
struct FaultedFrame {
  Bytes bytes;              ///< until the next call
  std::int64_t time = 0;    ///< when it leaves: not before the call's time
  std::uint32_t side = 0;   ///< where it came from
  std::uint64_t frame = 0;  ///< its number
  std::string_view faults;  ///< what was done to it, for people; empty: nothing. Until the next call
};

/// What became of a frame.
struct FaultOutcome {
  std::uint64_t frame = 0;  ///< its number; 0: of due()
  FrameCoordinates coordinates;
  std::string faults;                 ///< what was done to it, for people; empty: nothing
  bool dropped = false;               ///< it will not leave
  std::vector<FaultedFrame> leaving;  ///< it, its copies, and others that it let go, in the order in which they leave
};

/// How often a rule was used.
struct FaultCount {
  std::uint64_t picked = 0;    ///< frames that all selectors but nth, first and every picked
  std::uint64_t done = 0;      ///< frames that it did something to
  std::uint64_t undoable = 0;  ///< of the others that it should have: no ICRC there, too short
};

struct FaultEngineOptions {
  std::uint64_t seed = 0;            ///< where the program says none
  std::size_t held_frames = 4096;    ///< that wait for others; the oldest leaves when there are more
  std::size_t log_entries = 65'536;  ///< kept; the oldest go
  std::uint32_t connections = 1024;  ///< whose coordinates are known
};

class FaultEngine {
 public:
  using Options = FaultEngineOptions;
  static constexpr std::int64_t never = std::numeric_limits<std::int64_t>::max();

  explicit FaultEngine(FaultProgram program, const Options& options = {});
  FaultEngine(FaultEngine&&) noexcept;
  FaultEngine& operator=(FaultEngine&&) noexcept;
  ~FaultEngine();

  /// An Ethernet frame arrived from `side`. Times must not go back. The outcome is valid until the next call.
  const FaultOutcome& arrived(Bytes frame, std::int64_t time, std::uint32_t side);
  /// When a held frame has to leave although too few passed it.
  [[nodiscard]] std::int64_t wakes() const;
  /// Lets go what has to leave by `time`.
  const FaultOutcome& due(std::int64_t time);
  /// Lets go all that is held, now.
  const FaultOutcome& finish(std::int64_t time);

  [[nodiscard]] const FaultProgram& program() const;
  [[nodiscard]] std::span<const FaultCount> counts() const;
  [[nodiscard]] const std::deque<FaultLogEntry>& log() const;
  [[nodiscard]] std::uint64_t log_forgotten() const;  ///< entries that went
  [[nodiscard]] std::uint64_t frames() const;
  [[nodiscard]] std::uint64_t seed() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace rdmawire::replay
