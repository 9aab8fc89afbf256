#pragma once
/// When frames leave. Pure: captured times in, absolute times out. Every time is computed from one anchor in 64 bits,
/// never by adding gaps to each other, so nothing drifts however long it takes.

#include <cstdint>
#include <limits>
#include <optional>

namespace rdmawire::replay {

/// How fast.
struct Pace {
  enum class Kind : std::uint8_t {
    captured,  ///< gaps as captured, divided by `rate`: 2 is twice as fast
    packets,   ///< `rate` frames a second
    bits,      ///< `rate` bits a second, of frames without preamble, frame check sequence and gap
    top,       ///< as fast as they are taken
  };
  Kind kind = Kind::captured;
  double rate = 1;  ///< above 0
  /// Captured: of a longer gap no more than this is waited, before `rate` divides it.
  std::int64_t most_gap = std::numeric_limits<std::int64_t>::max();
  std::uint64_t burst = 1;  ///< packets: so many leave together, that much less often
};

class Schedule {
 public:
  /// The first frame leaves at `anchor`, nanoseconds of the wire's clock.
  Schedule(const Pace& pace, std::int64_t anchor);

  /// When the next frame leaves, which was captured at `time` and has so many bytes. Captured times may go back, and
  /// so do then those that it gives. Top speed: the anchor.
  std::int64_t next(std::int64_t time, std::uint32_t bytes);
  /// The capture begins again, `pause` nanoseconds after the last frame (at other paces than the captured one: later
  /// than it would have gone on).
  void begin_again(std::int64_t pause);

  /// From the anchor to where the capture would begin again without a pause.
  [[nodiscard]] std::int64_t length() const;
  [[nodiscard]] std::int64_t latest() const { return latest_; }  ///< of the times given so far

 private:
  Pace pace_;
  std::int64_t anchor_;
  std::int64_t latest_;
  std::optional<std::int64_t> first_;  ///< captured time that stands at the anchor
  std::int64_t highest_ = 0;           ///< captured time so far
  std::int64_t cut_ = 0;               ///< of gaps that were too long, in all, in captured time
  std::uint64_t frames_ = 0, bytes_ = 0;
};

/// Holds back what would be more than so many bits a second; short bursts pass. The generic cell rate algorithm.
class RateCap {
 public:
  /// `bits_per_second` 0: no cap.
  explicit RateCap(std::uint64_t bits_per_second, std::int64_t burst = 10'000'000);
  /// When a frame that is to leave at `time` may.
  std::int64_t allow(std::int64_t time, std::uint32_t bytes);
  [[nodiscard]] bool on() const { return bits_ != 0; }

 private:
  std::uint64_t bits_;
  std::int64_t burst_;                                           ///< nanoseconds that may be used in advance
  std::int64_t due_ = std::numeric_limits<std::int64_t>::min();  ///< when the next one would be at the rate exactly
  std::uint64_t rest_ = 0;                                       ///< what the division left over, in 1/bits_ of a ns
};

}  // namespace rdmawire::replay
