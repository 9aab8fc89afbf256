#pragma once
/// Counts what happens to packets on each hop between two capture points. The input is transmissions in order.

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <string_view>
#include <vector>

#include "captures/analysis/bounded.hpp"
#include "captures/analysis/histogram.hpp"
#include "captures/analysis/vantage/matcher.hpp"

namespace rdmawire::captures::vantage {

/// What happened to a packet between a capture point and the next point of its path.
enum class HopOutcome : std::uint8_t {
  lost,               ///< only seen upstream, and missed by the receiver: NAKed or retransmitted
  missing,            ///< only seen upstream. It is unknown whether the network or the capture lost it
  missed_downstream,  ///< only seen upstream, but delivered: the downstream capture lost it
  missed_upstream,    ///< only seen downstream: the upstream capture lost it
  elsewhere,          ///< seen upstream, while the downstream capture has no packet of the flow
  marked,             ///< ECN-capable upstream, and CE downstream
  dscp_rewritten,
  priority_rewritten,
  port_rewritten,  ///< different UDP source port downstream
  address_rewritten,
  icrc_corrupted,  ///< the ICRC is valid upstream, and bad downstream
  damaged,         ///< only seen downstream and with a bad ICRC, so it cannot be matched with the original packet
  reordered,       ///< a later packet of the same flow overtook it on the hop
  duplicated,      ///< seen once upstream and twice downstream
  captured_twice,  ///< seen twice upstream and once downstream: the upstream capture duplicated it
};
inline constexpr std::size_t hop_outcomes = static_cast<std::size_t>(HopOutcome::captured_twice) + 1;
/// Returns the name in JSON, such as "missed_downstream".
std::string_view to_string(HopOutcome outcome);

/// Frame numbers of a packet at both ends of a hop (0: not seen there).
struct FramePair {
  std::uint64_t upstream = 0, downstream = 0;
};

/// Number of packets with one outcome, the flows that it affects most, and frames as examples.
struct ResultCounters {
  static constexpr std::size_t frames_kept = 10, units_kept = 8;
  std::uint64_t packets = 0, bytes = 0;
  std::uint64_t named = 0;                                     ///< number of lost packets that a NAK reported
  std::int64_t first_time = 0, last_time = 0;                  ///< first and last time by the reference clock
  std::vector<FramePair> frames;                               ///< the earliest frames
  std::vector<std::pair<std::uint32_t, std::uint64_t>> units;  ///< the most affected flows, with approximate counts

  void add(const FramePair& pair, std::int64_t time, std::uint32_t unit, std::uint32_t bytes_of_packet);
};

struct Hop {
  FlowKey direction;                         ///< direction of the path, with number 0
  std::size_t upstream = 0, downstream = 0;  ///< indices of the captures
  bool plain_tcp = false;                    ///< TCP that no capture shows to be iWARP
  bool adjacent = true;                      ///< false: a capture point between the two missed these packets
  std::uint64_t seen = 0, bytes = 0;         ///< number of packets that were seen at both ends, and their payload bytes
  std::uint64_t capable = 0;                 ///< number of these packets that were ECN-capable and not marked upstream
  std::array<ResultCounters, hop_outcomes> tallies;
  /// Delays minus `base`, in nanoseconds. `base` is the shortest delay of the samples in the first pass. `shortest` is
  /// the shortest delay of all packets, which is at most `base`.
  analysis::Histogram delays;
  std::int64_t base = 0, shortest = INT64_MAX;
  FramePair slowest;
  std::int64_t slowest_time = 0, slowest_delay = INT64_MIN;
  std::int16_t ttl_least = INT16_MAX,
               ttl_most = INT16_MIN;  ///< least and greatest decrease of the TTL between the points

  [[nodiscard]] const ResultCounters& of(HopOutcome outcome) const {
    return tallies[static_cast<std::size_t>(outcome)];
  }
  [[nodiscard]] ResultCounters& of(HopOutcome outcome) { return tallies[static_cast<std::size_t>(outcome)]; }
};

/// Losses on a path that happened outside of all hops.
struct Edge {
  FlowKey direction;        ///< direction of the path, with number 0
  bool downstream = false;  ///< true: downstream of the last point, false: upstream of the first point
  std::size_t point = 0;
  ResultCounters tally;
};

class Ledger final : public Matcher::MatchSink {
 public:
  Ledger(const std::vector<Survey>& surveys, const Layout& layout);

  /// Returns the index of a flow, and adds the flow if it is new. Returns nullopt if the table has no space for it.
  std::optional<std::uint32_t> unit(const FlowKey& flow);
  [[nodiscard]] const FlowKey& flow(std::uint32_t unit) const { return units_.rows()[unit].first; }

  void take(const Transmission& transmission) override;
  const CapturePath* path_of(std::uint32_t unit) override { return rows_[unit].path; }
  /// Ends the comparison: determines the outcome of packets that are still pending.
  void finish();

  [[nodiscard]] const std::vector<Hop>& hops() const { return hops_; }
  [[nodiscard]] const std::vector<Edge>& edges() const { return edges_; }
  struct Point {
    std::uint64_t packets = 0;  ///< number of RDMA packets that were seen at this point
    std::uint64_t shared = 0;   ///< number of these packets that were also seen at another point
  };
  [[nodiscard]] const std::vector<Point>& points() const { return points_; }
  /// Number of transmissions of RDMA packets that at least one point saw.
  [[nodiscard]] std::uint64_t followed() const { return followed_; }
  /// Number of packets and hops that were dropped because a table was full.
  [[nodiscard]] std::uint64_t skipped() const { return skipped_; }

 private:
  static constexpr std::size_t most_hops = 4096, most_pending = 1U << 18, most_pending_of_unit = 4096,
                               recent_of_unit = 512, most_with_recent = 1U << 14, most_edges = 4096;
  /// A packet that the next point of its path has not seen yet.
  struct Pending {
    std::uint32_t psn = 0, length = 0;  ///< `length` is the number of bytes of a TCP segment
    std::int64_t time = 0;
    std::uint32_t hop = 0;
    std::uint64_t frame = 0;
    std::uint32_t bytes = 0;
    Role role = Role::datagram;
  };
  struct Overtaken {
    std::uint32_t hop = 0;
    FramePair last;
  };
  /// The latest transmission of a PSN: at any point, and at the last point of its path.
  struct Sent {
    static constexpr std::uint32_t nothing = UINT32_MAX;
    std::uint32_t psn = nothing;
    std::uint32_t bytes = 0;
    std::int64_t anywhere = INT64_MIN, at_last = INT64_MIN;  ///< times in nanoseconds
    std::uint64_t frame = 0,
                  frame_at_last = 0;  ///< frame at the first point (0: not seen there), and frame at the last point
  };
  struct Unit {
    const CapturePath* path = nullptr;
    std::uint32_t points = 0;                ///< bits of the captures that have packets of this flow
    std::uint32_t partner = UINT32_MAX;      ///< index of the flow of the other direction, if known
    std::int64_t progress_time = INT64_MIN;  ///< time of the latest packet that is not a retransmission
    std::uint32_t highest_psn = 0;           ///< PSN of that packet
    bool partner_sought = false;
    bool began = false;
    bool plain_tcp = false;
    std::vector<Pending> pending;
    std::vector<Overtaken> overtaken;
    std::vector<Sent> recent;  ///< latest transmissions, indexed by PSN modulo the size
  };
  struct Nothing {};

  Hop* hop(Unit& unit, std::size_t upstream, std::size_t downstream, bool adjacent);
  /// Returns the outcome of a packet without any captured retransmission or response.
  [[nodiscard]] HopOutcome outcome_without_response(const Unit& unit, const Pending& pending) const;
  void settle(std::uint32_t unit, const Pending& pending, HopOutcome outcome, bool named = false);
  void on_retransmission(std::uint32_t unit, const Copy& copy, std::int64_t time);
  /// Returns the destination QP of the requests to which these responses belong.
  [[nodiscard]] std::optional<std::uint64_t> requester_of(const FlowKey& responses) const;
  void on_response(const Copy& copy, std::int64_t time);
  void remember(Unit& unit, const Transmission& transmission);
  /// Records a loss of `psn` outside of all hops: upstream of the first point, or downstream of the last one.
  void check_edges(std::uint32_t unit, std::uint32_t psn, std::int64_t time);
  void compare(std::uint32_t unit, const Copy& upstream, const Copy& downstream, bool adjacent);
  [[nodiscard]] bool was_capturing(std::size_t capture, std::int64_t time, std::size_t other) const;

  const std::vector<Survey>& surveys_;
  const Layout& layout_;
  analysis::BoundedTable<FlowKey, Nothing> units_{1U << 18};
  std::vector<Unit> rows_;
  std::vector<Hop> hops_;
  std::map<std::array<std::uint64_t, 7>, std::uint32_t> hop_of_;
  std::vector<Edge> edges_;
  std::size_t with_recent_ = 0;
  std::vector<Point> points_;
  std::vector<std::pair<std::int64_t, std::int64_t>>
      spans_;  ///< first and last time of each capture, by the reference clock
  std::uint64_t followed_ = 0, skipped_ = 0;
  std::size_t pending_ = 0;
};

}  // namespace rdmawire::captures::vantage
