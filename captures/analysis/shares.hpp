#pragma once
/// Decides whether the shards of a capture together fit into the limits of a single tracker.

#include <array>
#include <atomic>
#include <cstdint>
#include <span>
#include <vector>

#include "captures/analysis/workers.hpp"
#include "dissectors/tracking/level.hpp"

namespace rdmawire::captures::analysis {

/// Shared by the threads, which process one shard each. Whether a table evicts an entry depends on its other entries,
/// so the decision must cover the complete capture.
class Shares {
 public:
  /// Publishes the levels of a shard. The first level is memory. It is immediately added to that of the other shards
  /// and compared with the limit. `dropped` is true if the shard evicted entries or dropped items. Returns whether the
  /// limits are exceeded.
  bool publish(unsigned shard, const std::vector<tracking::Level>& levels, bool dropped) {
    if (dropped) exceeded_.store(true, std::memory_order_relaxed);
    if (!levels.empty()) {
      memory_[shard % memory_.size()].store(levels[0].highest, std::memory_order_relaxed);
      std::uint64_t all = 0;
      for (const auto& memory : memory_) all += memory.load(std::memory_order_relaxed);
      if (all > levels[0].limit) exceeded_.store(true, std::memory_order_relaxed);
    }
    return exceeded();
  }
  [[nodiscard]] bool exceeded() const { return exceeded_.load(std::memory_order_relaxed); }
  void set_exceeded() { exceeded_.store(true, std::memory_order_relaxed); }
  /// Returns whether, for any table, the sum of the shards' levels exceeds the limit. All shards must have the same
  /// tables.
  static bool exceed(std::span<const std::vector<tracking::Level>> shards) {
    for (std::size_t table = 0; !shards.empty() && table < shards[0].size(); ++table) {
      std::uint64_t all = 0;
      for (const auto& levels : shards) all += levels[table].highest;
      if (all > shards[0][table].limit) return true;
    }
    return false;
  }

 private:
  std::array<std::atomic<std::uint64_t>, most_workers> memory_{};
  std::atomic<bool> exceeded_{false};
};

}  // namespace rdmawire::captures::analysis
