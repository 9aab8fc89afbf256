#pragma once
/// Transmission times of frames. Free of I/O: captured times in, absolute times out. All times are computed from one
/// anchor in 64 bits, so rounding errors do not accumulate.

#include <cstdint>
#include <deque>
#include <limits>
#include <optional>

namespace rdmawire::replay {

/// Transmission rate.
struct Pace {
  enum class Kind : std::uint8_t {
    captured,  ///< captured gaps divided by `rate`. 2 is twice as fast
    packets,   ///< `rate` frames per second
    bits,      ///< `rate` bits per second, without preamble, frame check sequence and inter-frame gap
    top,       ///< as fast as possible
  };
  Kind kind = Kind::captured;
  double rate = 1;  ///< above 0
  /// Captured: maximum gap, before the division by `rate`.
  std::int64_t most_gap = std::numeric_limits<std::int64_t>::max();
  std::uint64_t burst = 1;  ///< packets: number of frames that are sent together
};

class Schedule {
 public:
  /// The first frame is sent at `anchor`, in nanoseconds of the wire's clock.
  Schedule(const Pace& pace, std::int64_t anchor);

  /// Transmission time of the next frame, which was captured at `time`. If captured times decrease, so do the results.
  /// Top speed: the anchor.
  std::int64_t next(std::int64_t time, std::uint32_t bytes);
  /// Starts the next loop, `pause` nanoseconds after the last frame (for rates other than captured: after the regular
  /// time of the next frame).
  void begin_again(std::int64_t pause);

  /// Time from the anchor to the start of the next loop without a pause.
  [[nodiscard]] std::int64_t length() const;
  [[nodiscard]] std::int64_t latest() const { return latest_; }  ///< latest result so far

 private:
  Pace pace_;
  std::int64_t anchor_;
  std::int64_t latest_;
  std::optional<std::int64_t> first_;  ///< captured time that corresponds to the anchor
  std::int64_t highest_ = 0;           ///< latest captured time so far
  std::int64_t cut_ = 0;               ///< total shortening of long gaps, in captured time
  std::uint64_t frames_ = 0, bytes_ = 0;
};

/// Limit for the rate of transmitted frames, by the times at which they are passed to the wire:
///
/// - in any 10 ms, at most the bytes of 10 ms at the rate, or a single longer frame
/// - in any other period, at most the bytes at the rate, plus a burst of 0.5 ms at the rate, plus one frame
class RateCap {
 public:
  static constexpr std::int64_t window = 10'000'000;  ///< nanoseconds
  static constexpr std::int64_t burst = 500'000;      ///< nanoseconds at the rate

  /// `bits_per_second` 0: unlimited.
  explicit RateCap(std::uint64_t bits_per_second);
  /// Earliest permitted time of a frame, not before `time`. `before`: bytes of preceding frames that are sent at the
  /// same time and not yet recorded.
  [[nodiscard]] std::int64_t allowed(std::int64_t time, std::uint32_t bytes, std::uint64_t before = 0) const;
  /// Records sent frames. Times must not decrease.
  void sent(std::int64_t time, std::uint64_t bytes);
  [[nodiscard]] bool on() const { return bits_ != 0; }

 private:
  /// Frames that were sent within a short time.
  struct Group {
    std::int64_t first = 0, last = 0;
    std::uint64_t bytes = 0;
  };
  static constexpr std::int64_t grouped = 20'000;  ///< maximum duration of a group in nanoseconds

  std::uint64_t bits_;
  std::uint64_t budget_;                                         ///< bytes per window
  std::int64_t due_ = std::numeric_limits<std::int64_t>::min();  ///< time of the next frame at exactly the rate
  std::uint64_t rest_ = 0;                                       ///< remainder of the division, in 1/bits_ nanoseconds
  std::deque<Group> groups_;                                     ///< of the last window
  std::uint64_t total_ = 0;                                      ///< bytes in `groups_`
};

}  // namespace rdmawire::replay
