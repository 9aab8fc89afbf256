#include "captures/analysis/vantage/layout.hpp"

#include <algorithm>
#include <set>

namespace rdmawire::captures::vantage {
namespace {

/// If a capture shares no packet with the other captures, and has at least this number of sampled packets of a
/// direction, it is off the path of this direction.
constexpr std::size_t few_samples = 20;

std::pair<PortAddress, PortAddress> ends_of(const FlowKey& direction) {
  return direction.from < direction.to ? std::pair(direction.from, direction.to)
                                       : std::pair(direction.to, direction.from);
}

std::int64_t median(std::vector<std::int64_t> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

/// Returns the differences of the timestamps, corrected for drift.
std::vector<std::int64_t> differences(const std::vector<ClockPoint>& points, double drift, std::int64_t at) {
  std::vector<std::int64_t> result;
  for (const ClockPoint& p : points)
    result.push_back(p.second - p.first - static_cast<std::int64_t>(static_cast<double>(p.first - at) * drift * 1e-6));
  return result;
}

}  // namespace

std::string_view to_string(OrderBy by) {
  constexpr std::string_view names[] = {"given", "ttl", "times", "end_point", "clocks", "file_order"};
  return names[static_cast<std::size_t>(by)];
}

Layout::Layout(const std::vector<Survey>& surveys, const LayoutOptions& options) : options_(options) {
  for (const Survey& survey : surveys) {
    fine_.push_back(survey.nanoseconds);
    auto& seen = seen_.emplace_back();
    for (const auto& [direction, row] : survey.directions.rows()) seen[ordered(direction)] = row.packets;
  }
  find_hosts(surveys);
  for (std::size_t i = 0; i < surveys.size(); ++i)
    for (std::size_t j = i + 1; j < surveys.size(); ++j) compare(surveys, i, j);
  align(surveys);
  lay_out(surveys);
}

const PairOfPoints* Layout::pair(std::size_t a, std::size_t b) const {
  for (const PairOfPoints& pair : pairs_)
    if (pair.first == std::min(a, b) && pair.second == std::max(a, b)) return &pair;
  return nullptr;
}

const CapturePath* Layout::path(const FlowKey& direction) const {
  const auto found = path_of_.find(ordered(direction.with(0)));
  return found == path_of_.end() ? nullptr : &paths_[found->second];
}

std::int64_t Layout::tolerance(std::size_t a, std::size_t b) const {
  constexpr std::int64_t least = 20'000, unknown = 1'000'000;
  const PairOfPoints* found = pair(a, b);
  if (!found || !found->clock.low || !found->clock.high) return unknown;
  return std::max(least, *found->clock.high - *found->clock.low);
}

void Layout::find_hosts(const std::vector<Survey>& surveys) {
  for (const Survey& survey : surveys) {
    std::optional<PortAddress> host;
    std::set<PortAddress> candidates, all;
    bool first = true;
    for (const auto& [direction, seen] : survey.directions.rows()) {
      all.insert({direction.from, direction.to});
      if (first) candidates = {direction.from, direction.to};
      first = false;
      std::erase_if(candidates, [&, d = direction](const PortAddress& a) { return a != d.from && a != d.to; });
    }
    // If there is only one peer, all packets contain both addresses, so the host of the capture is unknown.
    if (candidates.size() == 1 && all.size() > 2) host = *candidates.begin();
    host_.push_back(host);
  }
}

struct Layout::Shared {
  std::uint64_t samples = 0;
  std::map<std::array<std::uint64_t, 5>, std::vector<ClockPoint>> points;  ///< timestamps, by direction
  std::map<std::array<std::uint64_t, 5>, FlowKey> directions;
  /// Number of packets with a higher TTL at the first capture, minus the number with a lower TTL. Packets to the lower
  /// address count negatively.
  std::map<Ends, std::int64_t> higher_ttl;
  // The order of the captures is not known yet, so the direction with the most packets determines the drift.
  double drift = 0;
  std::int64_t drift_from = 0;

  void estimate_drift(bool synchronized) {
    const std::vector<ClockPoint>* most = nullptr;
    for (const auto& [key, list] : points)
      if (!most || list.size() > most->size()) most = &list;
    drift = most && !synchronized ? drift_of(*most) : 0;
    drift_from = most && !most->empty() ? most->front().first : 0;
  }
};

Layout::Shared Layout::shared_of(const Survey& one, const Survey& other) {
  const std::uint64_t mask = Samples::mask(std::max(one.samples.level(), other.samples.level()));
  Shared shared;
  const auto &a = one.samples.all(), &b = other.samples.all();
  for (std::size_t p = 0, q = 0; p < a.size() && q < b.size();) {
    if (a[p].identity < b[q].identity) {
      ++p;
    } else if (b[q].identity < a[p].identity) {
      ++q;
    } else {
      if ((a[p].identity & mask) == 0) {
        ++shared.samples;
        if (!a[p].repeated && !b[q].repeated) {
          const FlowKey& direction = one.directions.rows()[a[p].direction].first;
          shared.points[ordered(direction)].push_back({a[p].time, b[q].time, ClockPoint::Bound::unknown});
          shared.directions[ordered(direction)] = direction;
          const int more = (a[p].ttl > b[q].ttl) - (a[p].ttl < b[q].ttl);
          shared.higher_ttl[ends_of(direction)] += direction.from < direction.to ? more : -more;
        }
      }
      ++p;
      ++q;
    }
  }
  return shared;
}

Layout::Order Layout::evident_order(const Shared& shared, const Ends& ends, std::size_t i, std::size_t j) const {
  if (const std::int64_t more = shared.higher_ttl.at(ends); more != 0) return {more > 0 ? 1 : -1, OrderBy::ttl};
  const auto& [lower, higher] = ends;
  const auto there = shared.points.find(ordered({lower, higher, 0})),
             back = shared.points.find(ordered({higher, lower, 0}));
  if (there != shared.points.end() && back != shared.points.end()) {
    // The round-trip time between the captures, in which the offset of the clocks cancels out. It is positive if the
    // first capture is closer to the lower address.
    const std::int64_t round_trip = median(differences(there->second, shared.drift, shared.drift_from)) -
                                    median(differences(back->second, shared.drift, shared.drift_from));
    const std::int64_t least = 2 * resolution(i, j);
    if (round_trip > least || round_trip < -least) return {round_trip > 0 ? 1 : -1, OrderBy::times};
  }
  const auto at_host = [&](std::size_t capture, const PortAddress& address) { return host_[capture] == address; };
  const int nearer = (at_host(i, lower) || at_host(j, higher)) - (at_host(i, higher) || at_host(j, lower));
  return nearer != 0 ? Order{nearer, OrderBy::end_point} : Order{};
}

// `--order` is the order of the captures along the path, but does not contain which endpoint is at its start. The
// evidence decides this. If there is none, the direction with more packets is assumed to follow the specified order.
void Layout::apply_given_order(std::map<Ends, Order>& orders, std::size_t i, std::size_t j) const {
  const auto place = [&](std::size_t capture) {
    return std::find(options_.order.begin(), options_.order.end(), capture) - options_.order.begin();
  };
  const auto packets = [&](const PortAddress& from, const PortAddress& to) {
    const auto found = seen_[i].find(ordered({from, to, 0}));
    return found == seen_[i].end() ? 0 : found->second;
  };
  for (auto& [ends, order] : orders) {
    if (order.nearer == 0) {
      const bool from_lower = packets(ends.first, ends.second) >= packets(ends.second, ends.first);
      order.nearer = (place(i) < place(j)) == from_lower ? 1 : -1;
    }
    order.by = OrderBy::given;
  }
}

void Layout::order_by_clocks(std::map<Ends, Order>& orders, const Shared& shared, const PairOfPoints& pair) const {
  const std::int64_t least = resolution(pair.first, pair.second);
  for (auto& [ends, order] : orders) {
    if (order.nearer != 0) continue;
    for (const bool from_lower : {true, false}) {
      const FlowKey direction{from_lower ? ends.first : ends.second, from_lower ? ends.second : ends.first, 0};
      const auto found = shared.points.find(ordered(direction));
      if (found == shared.points.end()) continue;
      const std::int64_t middle = median(differences(found->second, pair.clock.drift, pair.clock.at));
      int seen_first = 0;  // 1: the packets passed the first capture first
      if (options_.synchronized)
        seen_first = (middle > least) - (middle < -least);
      else if (pair.clock.low && pair.clock.high)
        seen_first = (middle > *pair.clock.high) - (middle < *pair.clock.low);
      if (seen_first != 0) order = {from_lower ? seen_first : -seen_first, OrderBy::clocks};
    }
  }
}

void Layout::compare(const std::vector<Survey>& surveys, std::size_t i, std::size_t j) {
  Shared shared = shared_of(surveys[i], surveys[j]);
  if (shared.samples == 0) return;
  shared.estimate_drift(options_.synchronized);

  std::map<Ends, Order> orders;
  for (const auto& [key, direction] : shared.directions)
    if (const Ends ends = ends_of(direction); !orders.contains(ends)) orders[ends] = evident_order(shared, ends, i, j);
  if (!options_.order.empty()) apply_given_order(orders, i, j);

  std::vector<ClockPoint> all;
  for (auto& [key, list] : shared.points) {
    const FlowKey& direction = shared.directions[key];
    const int nearer = orders[ends_of(direction)].nearer * (direction.from < direction.to ? 1 : -1);
    for (ClockPoint& p : list) {
      p.bound = static_cast<ClockPoint::Bound>(nearer);
      all.push_back(p);
    }
  }
  PairOfPoints pair{i, j, shared.samples, estimate(all, resolution(i, j))};
  order_by_clocks(orders, shared, pair);
  pairs_.push_back(std::move(pair));
  orders_.push_back(std::move(orders));
  points_.push_back(std::move(shared.points));
}

void Layout::align(const std::vector<Survey>& surveys) {
  const std::size_t n = surveys.size();
  connected_.assign(n, false);
  maps_.assign(n, {});
  std::vector<std::uint64_t> shared(n, 0);
  for (const PairOfPoints& pair : pairs_) {
    shared[pair.first] += pair.shared;
    shared[pair.second] += pair.shared;
  }
  // The first file is the reference if possible, because users look up its times first.
  reference_ = 0;
  if (n && shared[0] == 0)
    reference_ = static_cast<std::size_t>(std::max_element(shared.begin(), shared.end()) - shared.begin());
  if (n == 0 || shared[reference_] == 0) return;
  connected_[reference_] = true;
  std::vector<std::size_t> parent(n, n);
  for (;;) {
    const PairOfPoints* best = nullptr;
    for (const PairOfPoints& pair : pairs_)
      if (connected_[pair.first] != connected_[pair.second] && (!best || pair.shared > best->shared)) best = &pair;
    if (!best) break;
    const std::size_t child = connected_[best->first] ? best->second : best->first;
    parent[child] = connected_[best->first] ? best->first : best->second;
    connected_[child] = true;
    if (options_.synchronized) continue;
    const auto to_reference = [&](std::int64_t time) {
      std::int64_t t = time;
      for (std::size_t c = child; c != reference_; c = parent[c]) {
        const ClockEstimate& clock = pair(c, parent[c])->clock;
        t = c > parent[c] ? clock.first_of(t) : t + clock.difference(t);
      }
      return t;
    };
    Map& map = maps_[child];
    map.from = surveys[child].first_time;
    map.shift = to_reference(map.from) - map.from;
    // The span is at least one hour, so that rounding to nanoseconds is negligible.
    const std::int64_t span = std::max<std::int64_t>(surveys[child].last_time - map.from, 3'600'000'000'000);
    map.slope =
        static_cast<double>(to_reference(map.from + span) - map.from - span - map.shift) / static_cast<double>(span);
  }
}

Layout::Order Layout::order_of(const Ends& ends, std::size_t i, std::size_t j) const {
  for (std::size_t p = 0; p < pairs_.size(); ++p)
    if (pairs_[p].first == std::min(i, j) && pairs_[p].second == std::max(i, j))
      if (const auto found = orders_[p].find(ends); found != orders_[p].end()) {
        Order order = found->second;
        if (i > j) order.nearer = -order.nearer;
        return order;
      }
  return {};
}

void Layout::lay_out(const std::vector<Survey>& surveys) {
  const std::size_t n = surveys.size();
  for (std::size_t c = 0; c < n; ++c) {
    for (const auto& [direction, seen] : surveys[c].directions.rows()) {
      if (!connected_[c] || path_of_.contains(ordered(direction))) continue;
      const Ends ends = ends_of(direction);
      std::vector<std::size_t> points;
      for (std::size_t other = 0; other < n; ++other) {
        if (connected_[other] && seen_[other].contains(ordered(direction))) points.push_back(other);
      }
      // If a capture has many packets of this direction, but none in common, it is on a different path.
      const auto shares = [&, d = direction](std::size_t x, std::size_t y) {
        for (std::size_t p = 0; p < pairs_.size(); ++p)
          if (pairs_[p].first == std::min(x, y) && pairs_[p].second == std::max(x, y))
            return points_[p].contains(ordered(d));
        return false;
      };
      const auto count = [&, d = direction](std::size_t x) {
        return seen_[x].at(ordered(d)) >> surveys[x].samples.level();
      };
      if (points.size() > 1) {
        const std::vector<std::size_t> all = points;
        std::erase_if(points, [&](std::size_t x) {
          return count(x) >= few_samples &&
                 std::none_of(all.begin(), all.end(), [&](std::size_t y) { return y != x && shares(x, y); });
        });
      }
      const int sign = direction.from < direction.to ? 1 : -1;
      std::vector<int> score(n, 0);
      for (const std::size_t x : points)
        for (const std::size_t y : points)
          if (x != y) score[x] += sign * order_of(ends, x, y).nearer;
      std::stable_sort(points.begin(), points.end(), [&](std::size_t x, std::size_t y) { return score[x] > score[y]; });
      CapturePath path;
      path.direction = direction;
      path.points = points;
      for (std::size_t k = 1; k < points.size(); ++k) {
        const std::size_t up = points[k - 1], down = points[k];
        path.order.push_back(order_of(ends, up, down).by);
        std::optional<std::int64_t> shortest;
        for (std::size_t p = 0; p < pairs_.size(); ++p) {
          if (pairs_[p].first != std::min(up, down) || pairs_[p].second != std::max(up, down)) continue;
          const auto found = points_[p].find(ordered(direction));
          if (found == points_[p].end()) continue;
          for (const ClockPoint& point : found->second) {
            const std::int64_t first = aligned(pairs_[p].first, point.first),
                               second = aligned(pairs_[p].second, point.second);
            const std::int64_t delay = up < down ? second - first : first - second;
            if (!shortest || delay < *shortest) shortest = delay;
          }
        }
        path.shortest.push_back(shortest);
      }
      path_of_[ordered(direction)] = paths_.size();
      paths_.push_back(std::move(path));
    }
  }
}

}  // namespace rdmawire::captures::vantage
