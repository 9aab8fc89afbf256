#pragma once
/// What became of packets on each hop between two vantage points: counted from transmissions, in their order.

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

/// What can become of a packet between a point and the next one of its way.
enum class HopOutcome : std::uint8_t {
  lost,               ///< seen before, not behind, and the receiver missed it too: it was asked for or sent again
  missing,            ///< seen before, not behind, and nothing tells whether the network or the capture lost it
  missed_downstream,  ///< seen before, not behind, though it arrived: the capture behind lost it
  missed_upstream,    ///< seen behind, not before: the capture before lost it
  elsewhere,          ///< seen before; no packet of its flow was ever seen behind
  marked,             ///< ECN: capable before, CE behind
  dscp_rewritten,
  priority_rewritten,
  port_rewritten,  ///< the UDP source port
  address_rewritten,
  icrc_corrupted,  ///< good before, bad behind
  damaged,         ///< seen behind only, with a bad ICRC: what it was before cannot be told
  reordered,       ///< overtaken on the hop by a later packet of the same flow
  duplicated,      ///< once before, twice behind
  captured_twice,  ///< twice before, once behind: the capture before has two copies
};
inline constexpr std::size_t fates = static_cast<std::size_t>(HopOutcome::captured_twice) + 1;
/// "missed_downstream"; the names of JSON.
std::string_view to_string(HopOutcome fate);

/// A packet by its frames at the two ends of the hop; 0: not seen there.
struct FramePair {
  std::uint64_t before = 0, behind = 0;
};

/// How often something happened, to whom most, and where it can be looked up.
struct ResultCounters {
  static constexpr std::size_t frames_kept = 10, units_kept = 8;
  std::uint64_t packets = 0, bytes = 0;
  std::uint64_t named = 0;                                     ///< of lost ones: those that the receiver named in a NAK
  std::int64_t first_time = 0, last_time = 0;                  ///< by the reference's clock
  std::vector<FramePair> frames;                               ///< the first ones
  std::vector<std::pair<std::uint32_t, std::uint64_t>> units;  ///< flows with most of them, and how many; about

  void add(const FramePair& pair, std::int64_t time, std::uint32_t unit, std::uint32_t bytes_of_packet);
};

struct Hop {
  FlowKey direction;                   ///< number 0
  std::size_t before = 0, behind = 0;  ///< captures
  bool plain_tcp = false;              ///< TCP that no capture showed to be iWARP
  bool adjacent = true;                ///< false: some point between the two missed these packets
  std::uint64_t seen = 0, bytes = 0;   ///< packets at both ends, and their payload
  std::uint64_t capable = 0;           ///< of these, ECN-capable and not marked before the hop
  std::array<ResultCounters, fates> tallies;
  /// Delays less the shortest one, nanoseconds. What the samples of the first reading said to be shortest is `base`;
  /// `shortest` is the true one: it is less, or the same.
  analysis::Histogram delays;
  std::int64_t base = 0, shortest = INT64_MAX;
  FramePair slowest;
  std::int64_t slowest_time = 0, slowest_delay = INT64_MIN;
  std::int16_t ttl_least = INT16_MAX, ttl_most = INT16_MIN;  ///< hops that packets lost from one point to the other

  [[nodiscard]] const ResultCounters& of(HopOutcome fate) const { return tallies[static_cast<std::size_t>(fate)]; }
  [[nodiscard]] ResultCounters& of(HopOutcome fate) { return tallies[static_cast<std::size_t>(fate)]; }
};

/// What a way lost where no pair of points holds it between them.
struct Edge {
  FlowKey direction;    ///< number 0
  bool behind = false;  ///< behind the last point; else before the first one
  std::size_t point = 0;
  ResultCounters tally;
};

class Ledger final : public Matcher::MatchSink {
 public:
  Ledger(const std::vector<Survey>& surveys, const Layout& layout);

  /// The number of a flow; nullopt: there is no room for it.
  std::optional<std::uint32_t> unit(const FlowKey& flow);
  [[nodiscard]] const FlowKey& flow(std::uint32_t unit) const { return units_.rows()[unit].first; }

  void take(const Transmission& transmission) override;
  const CapturePath* way_of(std::uint32_t unit) override { return rows_[unit].way; }
  /// No more transmissions: what waits for a verdict gets one.
  void finish();

  [[nodiscard]] const std::vector<Hop>& hops() const { return hops_; }
  [[nodiscard]] const std::vector<Edge>& edges() const { return edges_; }
  struct Point {
    std::uint64_t packets = 0;  ///< RDMA packets seen there
    std::uint64_t shared = 0;   ///< of these, seen at another point too
  };
  [[nodiscard]] const std::vector<Point>& points() const { return points_; }
  /// RDMA packets that were sent, as far as any point saw them.
  [[nodiscard]] std::uint64_t followed() const { return followed_; }
  /// Packets and hops that found no room.
  [[nodiscard]] std::uint64_t left_out() const { return left_out_; }

 private:
  static constexpr std::size_t most_hops = 4096, most_pending = 1U << 18, most_pending_of_unit = 4096,
                               recent_of_unit = 512, most_with_recent = 1U << 14, most_edges = 4096;
  /// A packet that was not seen at the next point of its way.
  struct Pending {
    std::uint32_t psn = 0, length = 0;  ///< length: of TCP, bytes
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
  /// The latest sending of a PSN, as it was seen anywhere, and at the last point of its way.
  struct Sent {
    static constexpr std::uint32_t nothing = UINT32_MAX;
    std::uint32_t psn = nothing;
    std::uint32_t bytes = 0;
    std::int64_t anywhere = INT64_MIN, at_last = INT64_MIN;  ///< nanoseconds
    std::uint64_t frame = 0, frame_at_last = 0;              ///< frame: at the first point, 0 when not seen there
  };
  struct Unit {
    const CapturePath* way = nullptr;
    std::uint32_t points = 0;            ///< a bit for each capture that saw any packet of it
    std::uint32_t partner = UINT32_MAX;  ///< the unit of the other direction, once it is known
    std::int64_t went_on = INT64_MIN;    ///< when a packet was last sent that had not been sent before
    std::uint32_t furthest = 0;          ///< its PSN
    bool partner_sought = false;
    bool began = false;
    bool plain_tcp = false;
    std::vector<Pending> pending;
    std::vector<Overtaken> overtaken;
    std::vector<Sent> recent;  ///< by PSN modulo its size
  };
  struct Nothing {};

  Hop* hop(Unit& unit, std::size_t before, std::size_t behind, bool adjacent);
  /// For a packet that was neither sent again nor answered.
  [[nodiscard]] HopOutcome verdict_by_silence(const Unit& unit, const Pending& pending) const;
  void settle(std::uint32_t unit, const Pending& pending, HopOutcome fate, bool named = false);
  void hear_again(std::uint32_t unit, const Copy& copy, std::int64_t time);
  /// The queue pair whose requests these answers answer.
  [[nodiscard]] std::optional<std::uint64_t> asker_of(const FlowKey& answers) const;
  void hear_answer(const Copy& copy, std::int64_t time);
  void remember(Unit& unit, const Transmission& transmission);
  /// The receiver misses `psn`: lost before the first point or behind the last one, when it is not between them.
  void look_at_edges(std::uint32_t unit, std::uint32_t psn, std::int64_t time);
  void compare(std::uint32_t unit, const Copy& before, const Copy& behind, bool adjacent);
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
  std::vector<std::pair<std::int64_t, std::int64_t>> spans_;  ///< of captures, by the reference's clock
  std::uint64_t followed_ = 0, left_out_ = 0;
  std::size_t pending_ = 0;
};

}  // namespace rdmawire::captures::vantage
