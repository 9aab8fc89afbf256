#pragma once
/// Estimates offset and drift of two clocks from packets that both captures timestamped.
///
/// A packet's travel time is never negative. Therefore, the difference of its two timestamps is at least the offset of
/// the clocks if the first capture is closer to the sender, and at most the offset if the second capture is closer.
/// Packets of both directions bound the offset from both sides, as in NTP (RFC 5905, 8).

#include <cstdint>
#include <optional>
#include <vector>

namespace rdmawire::captures::vantage {

/// Timestamps of one packet in nanoseconds, each by the clock of its capture.
struct ClockPoint {
  std::int64_t first = 0, second = 0;
  enum class Bound : std::int8_t {
    below = -1,   ///< the second capture is closer to the sender: the difference is at most the offset
    unknown = 0,  ///< it is unknown which capture is closer to the sender
    above = 1,    ///< the first capture is closer to the sender: the difference is at least the offset
  } bound = Bound::unknown;
};

/// Difference of the clocks (second minus first). It is `offset` when the first clock shows `at`, and grows by `drift`.
struct ClockEstimate {
  std::int64_t at = 0;                          ///< time of the first clock in nanoseconds
  std::int64_t offset = 0;                      ///< nanoseconds. If both bounds exist, the center between them
  std::optional<std::int64_t> low, high;        ///< bounds of the offset in nanoseconds (nullopt: unbounded)
  double drift = 0;                             ///< parts per million
  std::optional<double> drift_low, drift_high;  ///< bounds of the drift (nullopt: unbounded)
  /// Nanoseconds by which the packets contradict any two steady clocks. The bounds already include them on both sides.
  std::int64_t unsteady = 0;
  std::uint64_t above = 0, below = 0, unknown = 0;  ///< number of points by Bound

  /// Returns the difference of the clocks (second minus first) when the first clock shows `first`.
  [[nodiscard]] std::int64_t difference(std::int64_t first) const;
  /// Returns the time of the first clock when the second clock shows `second`.
  [[nodiscard]] std::int64_t first_of(std::int64_t second) const;
};

/// Estimates offset and drift. `resolution` is the rounding error of the coarser clock in nanoseconds. Points may have
/// any order. Without points, all members are zero or nullopt.
ClockEstimate estimate(const std::vector<ClockPoint>& points, std::int64_t resolution);

/// Returns the drift of the second clock relative to the first in parts per million, from packets of one direction. It
/// is the median of slopes between medians, which delays hardly affect. Returns 0 if there are too few points.
double drift_of(const std::vector<ClockPoint>& points);

}  // namespace rdmawire::captures::vantage
