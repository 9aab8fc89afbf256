#pragma once
/// Relation of the capture points: offsets of their clocks, and their order along each path.

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
  given,       ///< specified by the user
  ttl,         ///< the packets' TTL is lower at one point
  times,       ///< round-trip time between the points, independent of the clock offset
  end_point,   ///< all packets of one capture have an address in common: it was captured at this endpoint
  clocks,      ///< timestamps, if the clocks are declared synchronized, or if other packets bound their offset
  file_order,  ///< no evidence: the order of the files
};
/// Name in JSON, such as "ttl".
std::string_view to_string(OrderBy by);

struct LayoutOptions {
  bool synchronized = false;       ///< the clocks are declared synchronized
  std::vector<std::size_t> order;  ///< captures in path order (empty: inferred)
};

/// Two captures that share packets.
struct PairOfPoints {
  std::size_t first = 0, second = 0;  ///< indices of the captures, first < second
  std::uint64_t shared = 0;           ///< number of samples in both captures
  ClockEstimate clock;                ///< as estimated from the packets
};

/// The path from one address to another.
struct CapturePath {
  FlowKey direction;                ///< number 0
  std::vector<std::size_t> points;  ///< captures, starting closest to the sender
  std::vector<OrderBy> order;       ///< evidence for each point except the first, relative to the preceding point
  /// For each point except the first: shortest time of a sample from the preceding point, by the aligned clocks
  /// (nullopt: no common sample).
  std::vector<std::optional<std::int64_t>> shortest;

  /// Shortest known time from `up` to `down`, nanoseconds by the aligned clocks.
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
  /// Paths in order of first occurrence in the captures.
  [[nodiscard]] const std::vector<CapturePath>& paths() const { return paths_; }
  [[nodiscard]] const CapturePath* path(const FlowKey& direction) const;
  /// The reference, and the captures that share packets with it, also indirectly. Others cannot be compared.
  [[nodiscard]] const std::vector<bool>& connected() const { return connected_; }
  /// Capture whose clock is the common time base.
  [[nodiscard]] std::size_t reference() const { return reference_; }
  /// Converts a capture's time to the reference clock.
  [[nodiscard]] std::int64_t aligned(std::size_t capture, std::int64_t time) const {
    const Map& map = maps_[capture];
    return sane_time(
        time + map.shift +
        (map.slope == 0 ? 0 : static_cast<std::int64_t>(static_cast<double>(time - map.from) * map.slope)));
  }
  /// Maximum time by which a packet can seem to arrive before it was sent, nanoseconds.
  [[nodiscard]] std::int64_t tolerance(std::size_t a, std::size_t b) const;
  /// The address that all packets of a capture have in common, by capture.
  [[nodiscard]] const std::vector<std::optional<PortAddress>>& host() const { return host_; }

 private:
  struct Map {
    std::int64_t from = 0, shift = 0;
    double slope = 0;
  };
  struct Order {
    int nearer = 0;  ///< 1: the first capture is closer to the lower address, -1: the second capture (0: unknown)
    OrderBy by = OrderBy::file_order;
  };
  using Ends = std::pair<PortAddress, PortAddress>;  ///< the lower address first
  struct Shared;                                     ///< the samples that two captures share
  void find_hosts(const std::vector<Survey>& surveys);
  void compare(const std::vector<Survey>& surveys, std::size_t i, std::size_t j);
  [[nodiscard]] static Shared shared_of(const Survey& one, const Survey& other);
  /// The order of captures i and j on the path between `ends`, by TTL, round-trip time or common address.
  [[nodiscard]] Order evident_order(const Shared& shared, const Ends& ends, std::size_t i, std::size_t j) const;
  /// Applies the order that the user specified.
  void apply_given_order(std::map<Ends, Order>& orders, std::size_t i, std::size_t j) const;
  /// Determines unknown orders by the timestamps.
  void order_by_clocks(std::map<Ends, Order>& orders, const Shared& shared, const PairOfPoints& pair) const;
  /// Resolution of the timestamps of two captures, nanoseconds.
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
