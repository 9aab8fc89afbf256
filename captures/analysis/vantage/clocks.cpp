#include "captures/analysis/vantage/clocks.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <span>

namespace rdmawire::captures::vantage {
namespace {

/// A point in the plane. x: time in seconds since a reference time, y: difference in nanoseconds from a reference
/// difference. Both are small enough for doubles.
struct Point {
  double t = 0, y = 0;
};

constexpr double second = 1e9;
/// Maximum drift in nanoseconds per second. This limit narrows the bounds of short captures.
constexpr double most_drift = 1e6;

/// Returns the vertices of the lower convex hull, from left to right.
std::vector<Point> lower_hull(std::vector<Point> points) {
  std::sort(points.begin(), points.end(),
            [](const Point& a, const Point& b) { return a.t < b.t || (a.t == b.t && a.y < b.y); });
  std::vector<Point> hull;
  for (const Point& p : points) {
    while (hull.size() >= 2) {
      const Point &a = hull[hull.size() - 2], &b = hull.back();
      if ((b.t - a.t) * (p.y - a.y) - (b.y - a.y) * (p.t - a.t) > 0) break;
      hull.pop_back();
    }
    hull.push_back(p);
  }
  return hull;
}

std::vector<Point> negated(std::vector<Point> points) {
  for (Point& p : points) p.y = -p.y;
  return points;
}

double lowest(std::span<const Point> points, double slope) {
  double low = std::numeric_limits<double>::infinity();
  for (const Point& p : points) low = std::min(low, p.y - slope * p.t);
  return low;
}

/// Returns the position of the maximum of a function with one maximum.
template <class Function>
double top(double from, double to, Function f) {
  for (int i = 0; i < 200 && to - from > 1e-9; ++i) {
    const double a = from + (to - from) / 3, b = to - (to - from) / 3;
    (f(a) < f(b) ? from : to) = f(a) < f(b) ? a : b;
  }
  return (from + to) / 2;
}

/// Returns the position that is farthest from `inside`, between `inside` and `outside`, and satisfies the predicate.
template <class Predicate>
double edge(double inside, double outside, Predicate holds) {
  if (holds(outside)) return outside;
  for (int i = 0; i < 100; ++i) {
    const double middle = (inside + outside) / 2;
    (holds(middle) ? inside : outside) = middle;
  }
  return inside;
}

/// Returns the median of the slopes between all pairs of points, in nanoseconds per second (Theil–Sen estimator).
double median_slope(const std::vector<Point>& points) {
  std::vector<double> slopes;
  for (std::size_t i = 0; i < points.size(); ++i)
    for (std::size_t j = i + 1; j < points.size(); ++j)
      if (points[j].t != points[i].t) slopes.push_back((points[j].y - points[i].y) / (points[j].t - points[i].t));
  if (slopes.empty()) return 0;
  std::nth_element(slopes.begin(), slopes.begin() + static_cast<std::ptrdiff_t>(slopes.size() / 2), slopes.end());
  return std::clamp(slopes[slopes.size() / 2], -most_drift, most_drift);
}

/// Divides the points into at most `stretches` periods of time. Returns the point that `choose` selects from each
/// period.
template <class Choose>
std::vector<Point> by_stretch(std::vector<Point> points, std::size_t stretches, Choose choose) {
  std::sort(points.begin(), points.end(), [](const Point& a, const Point& b) { return a.t < b.t; });
  std::vector<Point> chosen;
  const std::size_t n = std::min(stretches, points.size() / 4);
  for (std::size_t i = 0; i < n; ++i) {
    const std::size_t from = points.size() * i / n, to = points.size() * (i + 1) / n;
    chosen.push_back(choose(std::span<Point>(points).subspan(from, to - from)));
  }
  return chosen;
}

Point median(std::span<Point> points) {
  const auto middle = points.begin() + static_cast<std::ptrdiff_t>(points.size() / 2);
  std::nth_element(points.begin(), middle, points.end(), [](const Point& a, const Point& b) { return a.y < b.y; });
  return *middle;
}

/// Removes the bounding point that deviates most from the others. If one capture missed a packet, the packet may be
/// matched with its retransmission, which gives such a point.
void drop_worse(std::vector<Point>& above, std::vector<Point>& below, double slope) {
  const auto extreme = [slope](std::vector<Point>& points, double sign) {
    std::size_t at = 0;
    double first = std::numeric_limits<double>::infinity(), next = first;
    for (std::size_t i = 0; i < points.size(); ++i) {
      const double value = sign * (points[i].y - slope * points[i].t);
      if (value < first) {
        next = first;
        first = value;
        at = i;
      } else {
        next = std::min(next, value);
      }
    }
    return std::pair(at, next - first);
  };
  const auto [lowest_above, above_stands_off] = extreme(above, 1);
  const auto [highest_below, below_stands_off] = extreme(below, -1);
  if (above.size() > 1 && (above_stands_off >= below_stands_off || below.size() == 1))
    above.erase(above.begin() + static_cast<std::ptrdiff_t>(lowest_above));
  else if (below.size() > 1)
    below.erase(below.begin() + static_cast<std::ptrdiff_t>(highest_below));
}

std::int64_t rounded(double value) { return static_cast<std::int64_t>(std::llround(value)); }

}  // namespace

std::int64_t ClockEstimate::difference(std::int64_t first) const {
  return offset + rounded(static_cast<double>(first - at) * drift * 1e-6);
}

std::int64_t ClockEstimate::first_of(std::int64_t second_time) const {
  const std::int64_t about = second_time - offset;
  return about - rounded(static_cast<double>(about - at) * (drift * 1e-6 / (1 + drift * 1e-6)));
}

ClockEstimate estimate(const std::vector<ClockPoint>& points, std::int64_t resolution) {
  ClockEstimate result;
  if (points.empty()) return result;
  const auto [first, last] = std::minmax_element(
      points.begin(), points.end(), [](const ClockPoint& a, const ClockPoint& b) { return a.first < b.first; });
  result.at = first->first + (last->first - first->first) / 2;
  std::vector<std::int64_t> differences;
  for (const ClockPoint& p : points) differences.push_back(p.second - p.first);
  std::nth_element(differences.begin(), differences.begin() + static_cast<std::ptrdiff_t>(differences.size() / 2),
                   differences.end());
  const std::int64_t base = differences[differences.size() / 2];
  std::vector<Point> above, below, all;
  for (const ClockPoint& p : points) {
    const Point point{static_cast<double>(p.first - result.at) / second,
                      static_cast<double>(p.second - p.first - base)};
    all.push_back(point);
    if (p.bound == ClockPoint::Bound::above) above.push_back(point);
    if (p.bound == ClockPoint::Bound::below) below.push_back(point);
  }
  result.above = above.size();
  result.below = below.size();
  result.unknown = points.size() - above.size() - below.size();
  const auto cut = static_cast<double>(resolution);
  constexpr std::size_t stretches = 64;

  if (above.empty() || below.empty()) {
    // If all packets have the same direction, the drift follows from the shortest delays over time.
    const std::vector<Point>& side = above.empty() ? below : above;
    if (side.empty()) {
      const double slope = median_slope(by_stretch(all, stretches, median));
      result.drift = slope / 1000;
      for (Point& p : all) p.y -= slope * p.t;
      result.offset = base + rounded(median(all).y);
      return result;
    }
    const std::vector<Point> points_up = above.empty() ? negated(below) : above;
    const double slope = median_slope(by_stretch(points_up, stretches, [](std::span<Point> some) {
      return *std::min_element(some.begin(), some.end(), [](const Point& a, const Point& b) { return a.y < b.y; });
    }));
    const double bound = lowest(points_up, slope);
    result.drift = (above.empty() ? -slope : slope) / 1000;
    result.offset = base + rounded(above.empty() ? -bound : bound);
    (above.empty() ? result.low : result.high) = result.offset + (above.empty() ? -resolution : resolution);
    return result;
  }

  std::size_t may_go = std::max<std::size_t>(2, points.size() / 1000);
  for (;;) {
    const std::vector<Point> up = lower_hull(above), down = lower_hull(negated(below));
    const auto high = [&](double slope) { return lowest(up, slope) + cut; };
    const auto low = [&](double slope) { return -lowest(down, -slope) - cut; };
    const auto slack = [&](double slope) { return high(slope) - low(slope); };
    const double best = top(-most_drift, most_drift, slack);
    if (slack(best) < 0 && may_go > 0 && above.size() + below.size() > 4) {
      --may_go;
      drop_worse(above, below, best);
      continue;
    }
    result.drift = best / 1000;
    if (slack(best) < 0) {
      result.unsteady = rounded(-slack(best));
      const auto wide = static_cast<double>(result.unsteady);
      result.low = base + rounded(std::floor(high(best) - wide));
      result.high = base + rounded(std::ceil(low(best) + wide));
      result.offset = base + rounded((high(best) + low(best)) / 2);
      return result;
    }
    const auto fits = [&](double slope) { return slack(slope) >= 0; };
    const double slowest = edge(best, -most_drift, fits), fastest = edge(best, most_drift, fits);
    result.drift_low = slowest / 1000;
    result.drift_high = fastest / 1000;
    // Consider all drifts that are consistent with the packets.
    const double lowest_low = low(top(slowest, fastest, [&](double slope) { return -low(slope); }));
    const double highest_high = high(top(slowest, fastest, high));
    result.low = base + rounded(std::floor(lowest_low));
    result.high = base + rounded(std::ceil(highest_high));
    result.offset = base + rounded((high(best) + low(best)) / 2);
    return result;
  }
}

double drift_of(const std::vector<ClockPoint>& points) {
  if (points.empty()) return 0;
  std::vector<Point> all;
  for (const ClockPoint& p : points)
    all.push_back({static_cast<double>(p.first - points.front().first) / second,
                   static_cast<double>((p.second - p.first) - (points.front().second - points.front().first))});
  return median_slope(by_stretch(std::move(all), 32, median)) / 1000;
}

}  // namespace rdmawire::captures::vantage
