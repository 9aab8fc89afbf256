#pragma once
/// The same packets in several captures, found while these are read side by side: sightings in, in the order of aligned
/// time, and transmissions out. Memory is bounded by a window of time and a number of sightings.

#include <array>
#include <cstdint>
#include <map>
#include <span>
#include <vector>

#include "captures/analysis/vantage/layout.hpp"
#include "captures/analysis/vantage/observation.hpp"

namespace rdmawire::captures::vantage {

inline constexpr std::size_t most_points = 16;

/// A sighting in short.
struct Copy {
  std::int64_t aligned = 0;  ///< nanoseconds, by the reference's clock
  std::uint64_t frame = 0;
  std::uint32_t unit = 0;  ///< the flow, as Units numbers it
  std::uint32_t psn = 0, acknowledged = 0, bytes = 0;
  std::uint32_t next = 0;  ///< Matcher's
  std::uint16_t source_port = 0;
  std::uint8_t capture = 0;
  CrcCheck::Status icrc = CrcCheck::Status::absent;
  Role role = Role::datagram;
  Wire wire = Wire::none;
  std::uint8_t traffic_class = 0, ttl = 0, priority = Observation::no_priority, syndrome = 0;
  bool acknowledges = false;
};

/// One packet, sent once: its copies at the vantage points that saw it, in the order of the way.
struct Transmission {
  std::array<Copy, most_points> copies;
  std::uint8_t count = 0;
  /// A copy of another transmission that was seen further: made on the way, or captured twice.
  bool doubled = false;
  [[nodiscard]] std::span<const Copy> seen() const { return {copies.data(), count}; }
  [[nodiscard]] std::int64_t first() const {
    std::int64_t time = copies[0].aligned;
    for (std::uint8_t i = 1; i < count; ++i) time = std::min(time, copies[i].aligned);
    return time;
  }
};

struct MatcherOptions {
  std::int64_t window = 100'000'000;  ///< nanoseconds that copies of a packet may lie apart
  std::size_t sightings = 1U << 20;   ///< held at once; then packets are judged early, and that is counted
};

class Matcher {
 public:
  /// Who takes transmissions, in the order of their first sightings.
  class MatchSink {
   public:
    virtual void take(const Transmission& transmission) = 0;
    /// The way of a unit's packets; nullptr: not known.
    virtual const CapturePath* way_of(std::uint32_t unit) = 0;

   protected:
    ~MatchSink() = default;
  };

  Matcher(MatchSink& taker, const Layout& layout, const MatcherOptions& options);

  /// `copy.aligned` must not fall by more than the window from call to call.
  void add(std::uint64_t identity, const Copy& copy);
  void finish();
  /// Groups of copies that had to be judged before the window was over.
  [[nodiscard]] std::uint64_t evaluated_early() const { return hurried_; }

 private:
  static constexpr std::uint32_t none = UINT32_MAX;
  struct Group {
    std::uint64_t identity = 0;
    std::int64_t first = 0, last = 0;
    std::uint32_t head = none, tail = none;
    std::uint32_t count = 0;
    std::uint32_t captures = 0;  ///< a bit each
    bool several = false;        ///< copies that one capture has
  };
  [[nodiscard]] Group& group(std::uint64_t sequence) { return ring_[sequence & (ring_.size() - 1)]; }
  void grow_ring();
  void grow_slots();
  std::size_t slot_of(std::uint64_t identity) const;
  void erase_slot(std::size_t slot);
  void settle_oldest(std::int64_t now);
  void judge(Group& group);
  void align(std::vector<Copy>& copies, const CapturePath* way);
  void hand_over(const Transmission& transmission);
  void drain(std::int64_t until);

  MatchSink& taker_;
  const Layout& layout_;
  MatcherOptions options_;
  std::vector<Copy> pool_;
  std::uint32_t free_ = none;
  std::size_t held_ = 0;
  std::vector<Group> ring_;
  std::uint64_t oldest_ = 0, newest_ = 0;  ///< sequence numbers of groups; newest_ is the next one's
  std::vector<std::uint64_t> slots_;       ///< sequence number + 1; 0: free
  std::size_t used_slots_ = 0;
  std::multimap<std::int64_t, Transmission> later_;  ///< of groups that were judged, not due yet
  std::vector<Copy> copies_;
  std::vector<Transmission> found_;
  std::vector<double> costs_;
  std::uint64_t hurried_ = 0;
};

}  // namespace rdmawire::captures::vantage
