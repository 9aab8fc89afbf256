#pragma once
/// Estimates offset and drift of two clocks from packets that both captures timestamped.
///
/// A packet's travel time is never negative. The difference of its two timestamps is at least the offset of the clocks
/// if the first capture is closer to the sender, and at most the offset if the second capture is closer. Packets of
/// both directions bound the offset from both sides, as in NTP (RFC 5905, 8).

#include <cstdint>
#include <optional>
#include <vector>

namespace rdmawire::captures::vantage {

/// Timestamps of one packet, by the clock of each capture, in nanoseconds.
struct ClockPoint {
  std::int64_t first = 0, second = 0;
  enum class Bound : std::int8_t {
    below = -1,   ///< the second capture saw it first: the difference is at most the offset
    unknown = 0,  ///< unknown which capture is closer to the sender
    above = 1,    ///< the first capture saw it first: the difference is at least the offset
  } bound = Bound::unknown;
};

/// Second clock minus first clock: `offset` at the first clock's time `at`, growing by `drift`.
struct ClockEstimate {
  std::int64_t at = 0;                          ///< nanoseconds, by the first clock
  std::int64_t offset = 0;                      ///< nanoseconds: the center between the bounds, if both exist
  std::optional<std::int64_t> low, high;        ///< bounds of the offset (nullopt: unbounded)
  double drift = 0;                             ///< parts per million
  std::optional<double> drift_low, drift_high;  ///< bounds of the drift (nullopt: unbounded)
  /// Nanoseconds by which the packets contradict any steady clock. The interval is wider by this amount on both sides.
  std::int64_t unsteady = 0;
  std::uint64_t above = 0, below = 0, unknown = 0;  ///< number of points by bound

  /// Second clock minus first clock, when the first clock shows `first`.
  [[nodiscard]] std::int64_t difference(std::int64_t first) const;
  /// Time of the first clock when the second clock shows `second`.
  [[nodiscard]] std::int64_t first_of(std::int64_t second) const;
};

/// Estimates offset and drift. `resolution`: rounding error of the coarser clock, nanoseconds. Points may have any
/// order. Without points, all fields are zero or nullopt.
ClockEstimate estimate(const std::vector<ClockPoint>& points, std::int64_t resolution);

/// Drift of the second clock relative to the first, parts per million, from packets of one direction. Uses the median
/// of slopes between medians, which is robust against delays. Returns 0 if there are too few points.
double drift_of(const std::vector<ClockPoint>& points);

}  // namespace rdmawire::captures::vantage
