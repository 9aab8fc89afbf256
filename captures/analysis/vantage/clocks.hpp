#pragma once
/// How two clocks compare, from packets that were stamped by both: offset and drift, as far as the packets bound them.
///
/// A packet takes time from one capture to the other, never less than none. So the difference of its two stamps is at
/// least the offset of the clocks where the first capture is nearer to its sender, and at most that where the second
/// one is. Packets of both directions hold the offset between them, as NTP does (RFC 5905, 8).

#include <cstdint>
#include <optional>
#include <vector>

namespace rdmawire::captures::vantage {

/// What one packet says: stamped `first` by the first capture's clock and `second` by the second's, nanoseconds.
struct ClockPoint {
  std::int64_t first = 0, second = 0;
  enum class Bound : std::int8_t {
    below = -1,   ///< the second capture saw it first: the difference is at most the offset
    unknown = 0,  ///< nothing tells which one is nearer to the sender
    above = 1,    ///< the first capture saw it first: the difference is at least the offset
  } bound = Bound::unknown;
};

/// The second clock less the first: at the first clock's time `at` it is `offset`, and it grows by `drift`.
struct ClockEstimate {
  std::int64_t at = 0;                          ///< nanoseconds, by the first clock
  std::int64_t offset = 0;                      ///< nanoseconds: the middle of the interval, where there is one
  std::optional<std::int64_t> low, high;        ///< it lies between them; absent: no packet bounds it there
  double drift = 0;                             ///< parts per million
  std::optional<double> drift_low, drift_high;  ///< likewise
  /// By so many nanoseconds no steady clock agrees with the packets; the interval is wider by as much on both sides.
  std::int64_t unsteady = 0;
  std::uint64_t above = 0, below = 0, unknown = 0;  ///< points of each kind

  /// The second clock less the first when the first shows `first`.
  [[nodiscard]] std::int64_t difference(std::int64_t first) const;
  /// What the first clock showed when the second showed `second`.
  [[nodiscard]] std::int64_t first_of(std::int64_t second) const;
};

/// `resolution`: nanoseconds that a stamp may be cut by, of the coarser clock. Points come in any order. No points: all
/// zero and nothing bounded.
ClockEstimate estimate(const std::vector<ClockPoint>& points, std::int64_t resolution);

/// How fast the second clock runs against the first, parts per million, from packets of one direction whatever it is:
/// the median of slopes between medians, so that delays matter little. 0 when there are too few points.
double drift_of(const std::vector<ClockPoint>& points);

}  // namespace rdmawire::captures::vantage
