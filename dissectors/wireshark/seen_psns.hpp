// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once
/// The PSNs of READ responses that were captured.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "dissectors/protocol/modular.hpp"

namespace rdmawire::wireshark {

/// A set of PSNs in the half of the PSN space before the newest one, as ranges. Memory is bounded: beyond the maximum
/// number of ranges, the oldest one is removed.
class SeenPsns {
 public:
  static constexpr std::size_t max_ranges = 256;

  /// Adds a PSN of 24 bits. Returns whether the set contained it.
  bool add(std::uint32_t psn) {
    const std::int64_t at = ranges_.empty() ? psn & Psn::mask : near(psn);
    const auto next =
        std::partition_point(ranges_.begin(), ranges_.end(), [&](const Range& one) { return one.last < at; });
    if (next != ranges_.end() && next->first <= at) return true;
    const bool joins_next = next != ranges_.end() && next->first == at + 1;
    const bool joins_previous = next != ranges_.begin() && (next - 1)->last == at - 1;
    newest_ = ranges_.empty() ? at : std::max(newest_, at);
    if (joins_previous && joins_next) {
      (next - 1)->last = next->last;
      ranges_.erase(next);
    } else if (joins_previous) {
      (next - 1)->last = at;
    } else if (joins_next) {
      next->first = at;
    } else {
      ranges_.insert(next, {at, at});
      if (ranges_.size() > max_ranges) ranges_.erase(ranges_.begin());
    }
    while (ranges_.front().last < newest_ - half) ranges_.erase(ranges_.begin());
    ranges_.front().first = std::max(ranges_.front().first, newest_ - half);
    return false;
  }
  [[nodiscard]] std::size_t ranges() const { return ranges_.size(); }

 private:
  /// PSNs without the modulus.
  struct Range {
    std::int64_t first, last;
  };
  static constexpr std::int64_t half = Psn::half;

  /// Returns the number with this PSN that is nearest to the newest one.
  [[nodiscard]] std::int64_t near(std::uint32_t psn) const {
    return newest_ + (Psn(psn) - Psn(static_cast<std::uint32_t>(newest_)));
  }

  std::vector<Range> ranges_;  ///< ascending, separated by at least one PSN
  std::int64_t newest_ = 0;
};

}  // namespace rdmawire::wireshark
