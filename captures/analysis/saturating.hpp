#pragma once
/// Sums and differences of times that hostile captures may make as large as they like.

#include <cstdint>

namespace rdmawire::captures::analysis {

/// later - earlier, or the number nearest to it.
constexpr std::int64_t difference(std::int64_t later, std::int64_t earlier) {
  std::int64_t value = 0;
  if (!__builtin_sub_overflow(later, earlier, &value)) return value;
  return later < earlier ? INT64_MIN : INT64_MAX;
}

/// Adds a duration, up to the largest number. A negative one (time went back) counts as none, so that the order of
/// adding does not matter.
constexpr void accumulate(std::int64_t& sum, std::int64_t duration) {
  if (duration > 0 && __builtin_add_overflow(sum, duration, &sum)) sum = INT64_MAX;
}

}  // namespace rdmawire::captures::analysis
