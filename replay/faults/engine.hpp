#pragma once
/// Applies a fault program to frames. Free of I/O: input and output are frames with times and sides. A seed determines
/// the random numbers.

#include <cstdint>
#include <deque>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "replay/faults/program.hpp"

namespace rdmawire::replay {

/// Effect of one rule on one frame.
struct FaultLogEntry {
  std::uint64_t frame = 0;  ///< in arrival order, from 1
  std::int64_t time = 0;    ///< arrival time, nanoseconds
  std::uint32_t side = 0;   ///< source. 0: a
  std::uint32_t rule = 0;   ///< index in the program
  bool done = false;        ///< false: selected, but the action was not possible. `what` contains the reason
  FrameCoordinates coordinates;
  std::string what;  ///< for example "dropped", "byte 60: bits 0x01 flipped"
};
/// "frame 214 from a (connection 1, request psn +3, …): dropped by rule 1: drop psn +3 try 1 from a"
std::string to_string(const FaultLogEntry& entry, const FaultProgram& program);

/// An outgoing frame.
struct FaultedFrame {
  Bytes bytes;              ///< valid until the next call
  std::int64_t time = 0;    ///< transmission time, not before the time of the call
  std::uint32_t side = 0;   ///< source
  std::uint64_t frame = 0;  ///< frame number
  std::string_view faults;  ///< description of its faults. Empty: none. Valid until the next call
};

/// Result for one frame.
struct FaultOutcome {
  std::uint64_t frame = 0;  ///< frame number. 0: result of due() or finish()
  FrameCoordinates coordinates;
  std::string faults;                 ///< description of the faults. Empty: none
  bool dropped = false;               ///< the frame is not sent
  std::vector<FaultedFrame> leaving;  ///< the frame, its duplicates and released frames, in transmission order
};

/// Usage of a rule.
struct FaultCount {
  std::uint64_t picked = 0;    ///< frames that match all selectors except nth, first and every
  std::uint64_t done = 0;      ///< frames that were modified
  std::uint64_t undoable = 0;  ///< other selected frames, for which the action was not possible (no ICRC, too short)
};

struct FaultEngineOptions {
  std::uint64_t seed = 0;            ///< default if the program specifies none
  std::size_t held_frames = 4096;    ///< maximum number of held frames. If it is reached, the oldest is released
  std::size_t log_entries = 65'536;  ///< maximum number of log entries. The oldest are dropped
  std::uint32_t connections = 1024;  ///< maximum number of tracked connections
  /// Not 0: all frames belong to one connection with this number.
  std::uint32_t connection = 0;
  /// For the selector `qp`: numbers to use instead of the QP numbers in the frames.
  std::map<std::uint32_t, std::uint32_t> qp_numbers{};
};

class FaultEngine {
 public:
  using Options = FaultEngineOptions;
  static constexpr std::int64_t never = std::numeric_limits<std::int64_t>::max();

  explicit FaultEngine(FaultProgram program, const Options& options = {});
  FaultEngine(FaultEngine&&) noexcept;
  FaultEngine& operator=(FaultEngine&&) noexcept;
  ~FaultEngine();

  /// Handles an Ethernet frame from `side`. Times must not decrease. The result is valid until the next call.
  /// `connection`: number of the frame's connection, if the caller numbers connections. 0: the frame has none.
  const FaultOutcome& arrived(Bytes frame, std::int64_t time, std::uint32_t side,
                              std::optional<std::uint32_t> connection = std::nullopt);
  /// Time limit of the next held frame.
  [[nodiscard]] std::int64_t wakes() const;
  /// Releases the held frames whose time limit is reached at `time`.
  const FaultOutcome& due(std::int64_t time);
  /// Releases all held frames.
  const FaultOutcome& finish(std::int64_t time);

  [[nodiscard]] const FaultProgram& program() const;
  [[nodiscard]] std::span<const FaultCount> counts() const;
  /// Returns why a rule was not applied to a selected frame, or why it selected no frame. Empty if it was applied to
  /// every selected frame.
  [[nodiscard]] std::string why_not(std::size_t rule) const;
  [[nodiscard]] const std::deque<FaultLogEntry>& log() const;
  [[nodiscard]] std::uint64_t log_forgotten() const;  ///< number of dropped entries
  [[nodiscard]] std::uint64_t frames() const;
  [[nodiscard]] std::uint64_t seed() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace rdmawire::replay
