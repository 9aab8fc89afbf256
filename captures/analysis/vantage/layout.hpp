#pragma once
/// How the vantage points lie: their clocks against each other, and their order along each way.

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "captures/analysis/vantage/clocks.hpp"
#include "captures/analysis/vantage/survey.hpp"

namespace rdmawire::captures::vantage {

/// What an order of two vantage points rests on, the strongest first.
enum class OrderBy : std::uint8_t {
  given,      ///< the user said it
  ttl,        ///< the packets have fewer hops left at one than at the other
  times,      ///< answers come sooner after requests at one than at the other: exact, whatever the clocks show
  end_point,  ///< every packet of one capture begins or ends at the same address: it was taken there
  clocks,     ///< by the times, the clocks being known (declared, or bounded by other packets)
  nothing,    ///< taken as the files were named
};
/// "ttl"; the names of JSON.
std::string_view to_string(OrderBy by);

struct LayoutOptions {
  bool synchronized = false;       ///< the clocks are declared to agree
  std::vector<std::size_t> order;  ///< the captures along the way, as given; empty: to be found out
};

/// Two captures that share packets.
struct PairOfPoints {
  std::size_t first = 0, second = 0;  ///< captures; first < second
  std::uint64_t shared = 0;           ///< samples in both
  ClockEstimate clock;                ///< as the packets show it
};

/// The way from one address to another.
struct CapturePath {
  FlowKey direction;                ///< number 0
  std::vector<std::size_t> points;  ///< captures, the one nearest to the sender first
  std::vector<OrderBy> order;       ///< what the place of each but the first rests on, against the one before it
  /// Of each but the first: the shortest time from the one before it, by the aligned clocks, among the samples;
  /// absent: no sample was seen at both.
  std::vector<std::optional<std::int64_t>> shortest;

  /// The shortest time from `up` to `down`, as far as it is known; nanoseconds of the aligned clocks.
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
  /// In the order in which the captures saw them.
  [[nodiscard]] const std::vector<CapturePath>& ways() const { return ways_; }
  [[nodiscard]] const CapturePath* way(const FlowKey& direction) const;
  /// Captures that share packets with the reference, which is among them; the others cannot be compared with it.
  [[nodiscard]] const std::vector<bool>& connected() const { return connected_; }
  /// The capture whose clock all times are brought to.
  [[nodiscard]] std::size_t reference() const { return reference_; }
  /// A capture's time by the reference's clock.
  [[nodiscard]] std::int64_t aligned(std::size_t capture, std::int64_t time) const {
    const Map& map = maps_[capture];
    return sane_time(
        time + map.shift +
        (map.slope == 0 ? 0 : static_cast<std::int64_t>(static_cast<double>(time - map.from) * map.slope)));
  }
  /// How far a packet can seem to arrive before it was sent, nanoseconds.
  [[nodiscard]] std::int64_t tolerance(std::size_t a, std::size_t b) const;
  /// The address that begins or ends every packet of the capture.
  [[nodiscard]] const std::vector<std::optional<PortAddress>>& host() const { return host_; }

 private:
  struct Map {
    std::int64_t from = 0, shift = 0;
    double slope = 0;
  };
  struct Order {
    int nearer = 0;  ///< 1: the first capture is nearer to the lower address, -1: the second one is; 0: not known
    OrderBy by = OrderBy::nothing;
  };
  using Ends = std::pair<PortAddress, PortAddress>;  ///< the lower address first
  void find_hosts(const std::vector<Survey>& surveys);
  void compare(const std::vector<Survey>& surveys, std::size_t i, std::size_t j);
  void align(const std::vector<Survey>& surveys);
  void lay_out(const std::vector<Survey>& surveys);
  [[nodiscard]] Order order_of(const Ends& ends, std::size_t i, std::size_t j) const;

  LayoutOptions options_;
  std::vector<PairOfPoints> pairs_;
  std::vector<std::map<Ends, Order>> orders_;  ///< by pair
  /// By pair and direction: the stamps of the samples that both have.
  std::vector<std::map<std::array<std::uint64_t, 5>, std::vector<ClockPoint>>> points_;
  std::vector<CapturePath> ways_;
  std::map<std::array<std::uint64_t, 5>, std::size_t> way_of_;
  std::vector<bool> connected_;
  std::vector<Map> maps_;
  std::vector<std::optional<PortAddress>> host_;
  std::vector<bool> fine_;
  /// By capture: packets of each direction.
  std::vector<std::map<std::array<std::uint64_t, 5>, std::uint64_t>> seen_;
  std::size_t reference_ = 0;
};

}  // namespace rdmawire::captures::vantage
