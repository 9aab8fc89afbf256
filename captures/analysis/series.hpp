#pragma once
/// Counters over time, in at most 2048 steps of equal length.

#include <array>
#include <cstdint>
#include <vector>

namespace rdmawire::captures::analysis {

struct Archived;

/// The length of a step is 1 µs times a power of two: the smallest with which the capture fits into max_steps. Steps
/// start at multiples of their length since 1970. The layout depends only on the first and the last time, so series
/// merge exactly.
class Series {
 public:
  static constexpr std::int64_t finest = 1000;  ///< minimum length of a step in nanoseconds
  static constexpr std::int64_t max_steps = 2048;
  struct Step {
    std::uint64_t payload_bytes = 0, packets = 0, messages = 0, retransmitted = 0, ecn_marked = 0, cnps = 0;
    Step& operator+=(const Step& other) {
      payload_bytes += other.payload_bytes;
      packets += other.packets;
      messages += other.messages;
      retransmitted += other.retransmitted;
      ecn_marked += other.ecn_marked;
      cnps += other.cnps;
      return *this;
    }
  };

  /// Returns the step that contains `time` (nanoseconds since 1970). Valid until the next call.
  Step& at(std::int64_t time) {
    // One unsigned comparison checks both limits.
    if (current_ < steps_.size() && static_cast<std::uint64_t>(time) - static_cast<std::uint64_t>(current_from_) <
                                        static_cast<std::uint64_t>(step_)) [[likely]]
      return steps_[current_];
    return find(time);
  }
  void merge(const Series& other);

  [[nodiscard]] std::int64_t step_ns() const { return step_; }
  /// Start of the first step, in nanoseconds since 1970.
  [[nodiscard]] std::int64_t start() const { return first_ * step_; }
  [[nodiscard]] const std::vector<Step>& steps() const { return steps_; }

 private:
  friend struct Archived;
  Step& find(std::int64_t time);
  void coarsen();
  void reach(std::int64_t time);
  static std::int64_t floor_divide(std::int64_t a, std::int64_t b) { return a / b - (a % b < 0); }

  std::int64_t step_ = finest;
  std::int64_t first_ = 0;  ///< number of the first step, counted from 1970
  std::int64_t current_from_ = 0;
  std::size_t current_ = 0;
  std::vector<Step> steps_;
};

}  // namespace rdmawire::captures::analysis
