#pragma once
/// Finds the observations of the same packet in several captures, which are read in parallel. Gets observations in the
/// order of aligned time, and produces transmissions. The time window and the maximum number of observations limit the
/// memory.

#include <array>
#include <cstdint>
#include <map>
#include <span>
#include <vector>

#include "captures/analysis/vantage/layout.hpp"
#include "captures/analysis/vantage/observation.hpp"

namespace rdmawire::captures::vantage {

inline constexpr std::size_t most_points = 16;

/// An observation in compact form.
struct Copy {
  std::int64_t aligned = 0;  ///< time of the reference clock in nanoseconds
  std::uint64_t frame = 0;
  std::uint32_t unit = 0;  ///< index of the flow
  std::uint32_t psn = 0, acknowledged = 0, bytes = 0;
  std::uint32_t next = 0;  ///< only used by Matcher
  std::uint16_t source_port = 0;
  std::uint8_t capture = 0;
  CrcCheck::Status icrc = CrcCheck::Status::absent;
  Role role = Role::datagram;
  Wire wire = Wire::none;
  std::uint8_t traffic_class = 0, ttl = 0, priority = Observation::no_priority;
  Syndrome syndrome{0};
  bool acknowledges = false;
};

/// One transmission of a packet: its observations at the capture points, in path order.
struct Transmission {
  std::array<Copy, most_points> copies;
  std::uint8_t count = 0;
  /// Duplicate of another transmission, which was seen further downstream. The network duplicated it, or it was
  /// captured twice.
  bool doubled = false;
  [[nodiscard]] std::span<const Copy> seen() const { return {copies.data(), count}; }
  [[nodiscard]] std::int64_t first() const {
    std::int64_t time = copies[0].aligned;
    for (std::uint8_t i = 1; i < count; ++i) time = std::min(time, copies[i].aligned);
    return time;
  }
};

struct MatcherOptions {
  std::int64_t window = 100'000'000;    ///< maximum time between observations of a packet in nanoseconds
  std::size_t observations = 1U << 20;  ///< maximum number of observations in memory. It may shorten the window
};

class Matcher {
 public:
  /// Receives transmissions in the order of their first observations.
  class MatchSink {
   public:
    virtual void take(const Transmission& transmission) = 0;
    /// Returns the path of a flow (nullptr: unknown).
    virtual const CapturePath* path_of(std::uint32_t unit) = 0;

   protected:
    ~MatchSink() = default;
  };

  Matcher(MatchSink& taker, const Layout& layout, const MatcherOptions& options);

  /// Adds an observation. `copy.aligned` may be less than in the preceding call, but by at most the window.
  void add(std::uint64_t identity, const Copy& copy);
  void finish();
  /// Number of groups of observations that were evaluated before the end of their window.
  [[nodiscard]] std::uint64_t evaluated_early() const { return evaluated_early_; }

 private:
  static constexpr std::uint32_t none = UINT32_MAX;
  struct Group {
    std::uint64_t identity = 0;
    std::int64_t first = 0, last = 0;
    std::uint32_t head = none, tail = none;
    std::uint32_t count = 0;
    std::uint32_t captures = 0;  ///< bits of the captures
    bool several = false;        ///< one of the captures has several observations
  };
  [[nodiscard]] Group& group(std::uint64_t sequence) { return ring_[sequence & (ring_.size() - 1)]; }
  void grow_ring();
  void grow_slots();
  std::size_t slot_of(std::uint64_t identity) const;
  void erase_slot(std::size_t slot);
  void settle_oldest(std::int64_t now);
  void judge(Group& group);
  void align(std::vector<Copy>& copies, const CapturePath* path);
  void hand_over(const Transmission& transmission);
  void drain(std::int64_t until);

  MatchSink& taker_;
  const Layout& layout_;
  MatcherOptions options_;
  std::vector<Copy> pool_;
  std::uint32_t free_ = none;
  std::size_t held_ = 0;
  std::vector<Group> ring_;
  std::uint64_t oldest_ = 0, newest_ = 0;  ///< number of the oldest group, and of the next new group
  std::vector<std::uint64_t> slots_;       ///< number of the group in the slot, plus 1 (0: the slot is free)
  std::size_t used_slots_ = 0;
  std::multimap<std::int64_t, Transmission>
      later_;  ///< transmissions that were already evaluated, by the time of their first observations
  std::vector<Copy> copies_;
  std::vector<Transmission> found_;
  std::vector<double> costs_;
  std::uint64_t evaluated_early_ = 0;
};

}  // namespace rdmawire::captures::vantage
