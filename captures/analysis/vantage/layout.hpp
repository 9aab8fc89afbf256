#pragma once
/// How the capture points relate to each other: offsets of their clocks, and their order along each path.

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "captures/analysis/vantage/clocks.hpp"
#include "captures/analysis/vantage/survey.hpp"

namespace rdmawire::captures::vantage {

/// Evidence for the order of two capture points, strongest first.
enum class OrderBy : std::uint8_t {
  given,       ///< the user specified the order
  ttl,         ///< the TTL of the packets is lower at one point
  times,       ///< the round-trip time between the points, which does not depend on the offset of the clocks
  end_point,   ///< one address is in all packets of a capture, so it was captured at this endpoint
  clocks,      ///< timestamps, if the clocks are declared synchronized, or other packets bound their offset
  file_order,  ///< the order of the files, because there is no evidence
};
/// Returns the name in JSON, such as "ttl".
std::string_view to_string(OrderBy by);

struct LayoutOptions {
  bool synchronized = false;       ///< the user declared that the clocks are synchronized
  std::vector<std::size_t> order;  ///< captures in path order (empty: the order is inferred)
};

/// Two captures that share packets.
struct PairOfPoints {
  std::size_t first = 0, second = 0;  ///< indices of the captures, first < second
  std::uint64_t shared = 0;           ///< number of samples that are in both captures
  ClockEstimate clock;                ///< as estimated from the packets
};

/// The path from one address to another.
struct CapturePath {
  FlowKey direction;                ///< from one address to another, with number 0
  std::vector<std::size_t> points;  ///< captures on the path, starting with the one closest to the sender
  std::vector<OrderBy>
      order;  ///< for each point except the first: evidence for its order relative to the preceding point
  /// For each point except the first: shortest time of a sample from the preceding point, by the aligned clocks
  /// (nullopt: there is no common sample).
  std::vector<std::optional<std::int64_t>> shortest;

  /// Returns the shortest known time from point `up` to point `down`, in nanoseconds by the aligned clocks.
  [[nodiscard]] std::int64_t least(std::size_t up, std::size_t down) const {
    std::int64_t sum = 0;
    bool on_the_way = false;
    for (std::size_t k = 0; k < points.size(); ++k) {
      if (on_the_way) sum += shortest[k - 1].value_or(0);
      if (points[k] == down) return on_the_way ? sum : 0;
      on_the_way |= points[k] == up;
    }
    return 0;
  }
};

class Layout {
 public:
  Layout(const std::vector<Survey>& surveys, const LayoutOptions& options);

  [[nodiscard]] const std::vector<PairOfPoints>& pairs() const { return pairs_; }
  [[nodiscard]] const PairOfPoints* pair(std::size_t a, std::size_t b) const;
  /// Paths in the order in which they first occur in the captures.
  [[nodiscard]] const std::vector<CapturePath>& paths() const { return paths_; }
  [[nodiscard]] const CapturePath* path(const FlowKey& direction) const;
  /// True for the reference, and for captures that share packets with it, directly or through other captures. The other
  /// captures cannot be compared.
  [[nodiscard]] const std::vector<bool>& connected() const { return connected_; }
  /// The capture whose clock is the common time base.
  [[nodiscard]] std::size_t reference() const { return reference_; }
  /// Converts a time of a capture to the reference clock.
  [[nodiscard]] std::int64_t aligned(std::size_t capture, std::int64_t time) const {
    const Map& map = maps_[capture];
    return sane_time(
        time + map.shift +
        (map.slope == 0 ? 0 : static_cast<std::int64_t>(static_cast<double>(time - map.from) * map.slope)));
  }
  /// Returns the maximum time in nanoseconds by which a packet can seem to arrive before it was sent.
  [[nodiscard]] std::int64_t tolerance(std::size_t a, std::size_t b) const;
  /// The address that all packets of a capture have in common, by capture.
  [[nodiscard]] const std::vector<std::optional<PortAddress>>& host() const { return host_; }

 private:
  struct Map {
    std::int64_t from = 0, shift = 0;
    double slope = 0;
  };
  struct Order {
    int nearer = 0;  ///< 1: the first capture is closer to the lower address, -1: the second capture is (0: unknown)
    OrderBy by = OrderBy::file_order;
  };
  using Ends = std::pair<PortAddress, PortAddress>;  ///< two addresses, the lower one first
  struct Shared;                                     ///< samples that two captures share
  void find_hosts(const std::vector<Survey>& surveys);
  void compare(const std::vector<Survey>& surveys, std::size_t i, std::size_t j);
  [[nodiscard]] static Shared shared_of(const Survey& one, const Survey& other);
  /// Returns the order of captures i and j on the path between `ends`, according to TTL, round-trip time or a common
  /// address.
  [[nodiscard]] Order evident_order(const Shared& shared, const Ends& ends, std::size_t i, std::size_t j) const;
  /// Applies the order that the user specified.
  void apply_given_order(std::map<Ends, Order>& orders, std::size_t i, std::size_t j) const;
  /// Determines orders that are still unknown from the timestamps.
  void order_by_clocks(std::map<Ends, Order>& orders, const Shared& shared, const PairOfPoints& pair) const;
  /// Returns the resolution of the timestamps of two captures in nanoseconds.
  [[nodiscard]] std::int64_t resolution(std::size_t i, std::size_t j) const { return fine_[i] && fine_[j] ? 1 : 1000; }
  void align(const std::vector<Survey>& surveys);
  void lay_out(const std::vector<Survey>& surveys);
  [[nodiscard]] Order order_of(const Ends& ends, std::size_t i, std::size_t j) const;

  LayoutOptions options_;
  std::vector<PairOfPoints> pairs_;
  std::vector<std::map<Ends, Order>> orders_;  ///< by pair of captures
  /// Timestamps of the common samples, by pair and direction.
  std::vector<std::map<std::array<std::uint64_t, 5>, std::vector<ClockPoint>>> points_;
  std::vector<CapturePath> paths_;
  std::map<std::array<std::uint64_t, 5>, std::size_t> path_of_;
  std::vector<bool> connected_;
  std::vector<Map> maps_;
  std::vector<std::optional<PortAddress>> host_;
  std::vector<bool> fine_;
  /// Number of packets of each direction, by capture.
  std::vector<std::map<std::array<std::uint64_t, 5>, std::uint64_t>> seen_;
  std::size_t reference_ = 0;
};

}  // namespace rdmawire::captures::vantage
