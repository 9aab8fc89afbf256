#pragma once
/// Histogram of durations: quantiles of any number of values in little memory. Histograms merge exactly.
///
/// The buckets are those of a high dynamic range histogram: 128 for each power of two, so that the error of a value is
/// at most 0.8 % (two significant digits). Debian 12 packages HdrHistogram only for Go and Java.

#include <algorithm>
#include <bit>
#include <cstdint>
#include <vector>

namespace rdmawire::captures::analysis {

struct Archived;

class Histogram {
 public:
  /// Adds a value. Negative values count as 0.
  void add(std::int64_t value) {
    const auto v = static_cast<std::uint64_t>(std::max<std::int64_t>(value, 0));
    const std::size_t at = index(v);
    if (at >= counts_.size()) counts_.resize(at + 1);
    ++counts_[at];
    ++count_;
    min_ = std::min(min_, v);
    max_ = std::max(max_, v);
  }
  void merge(const Histogram& other) {
    if (counts_.size() < other.counts_.size()) counts_.resize(other.counts_.size());
    for (std::size_t i = 0; i < other.counts_.size(); ++i) counts_[i] += other.counts_[i];
    count_ += other.count_;
    min_ = std::min(min_, other.min_);
    max_ = std::max(max_, other.max_);
  }

  [[nodiscard]] std::uint64_t count() const { return count_; }
  /// The exact minimum (0 if there are no values).
  [[nodiscard]] std::uint64_t min() const { return count_ ? min_ : 0; }
  [[nodiscard]] std::uint64_t max() const { return max_; }
  /// Returns the value that `permille` thousandths of all values do not exceed (0 if it is empty). The result is at
  /// most 0.8 % too large.
  [[nodiscard]] std::uint64_t quantile(std::uint64_t permille) const {
    const std::uint64_t rank = std::max<std::uint64_t>((count_ * permille + 999) / 1000, 1);
    std::uint64_t below = 0;
    for (std::size_t i = 0; i < counts_.size(); ++i)
      if ((below += counts_[i]) >= rank) return std::clamp(highest(i), min(), max_);
    return max_;
  }
  /// Calls `take(lowest, highest, count)` for each bucket with values, in ascending order.
  template <class Take>
  void buckets(Take take) const {
    for (std::size_t i = 0; i < counts_.size(); ++i)
      if (counts_[i]) take(lowest(i), highest(i), counts_[i]);
  }

 private:
  friend struct Archived;
  static constexpr unsigned bits = 7;
  static constexpr std::uint64_t half = 1U << bits;
  // Each value below 2 * half has its own bucket. Each larger power of two is divided into `half` buckets.
  static std::size_t index(std::uint64_t v) {
    if (v < 2 * half) return v;
    const auto shift = static_cast<unsigned>(std::bit_width(v)) - bits - 1;
    return shift * half + (v >> shift);
  }
  static std::uint64_t lowest(std::size_t i) {
    if (i < 2 * half) return i;
    const std::uint64_t shift = i / half - 1;
    return (i - shift * half) << shift;
  }
  static std::uint64_t highest(std::size_t i) {
    if (i < 2 * half) return i;
    return lowest(i) + (std::uint64_t{1} << (i / half - 1)) - 1;
  }

  std::vector<std::uint64_t> counts_;
  std::uint64_t count_ = 0, min_ = UINT64_MAX, max_ = 0;
};

}  // namespace rdmawire::captures::analysis
