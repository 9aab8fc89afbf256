#pragma once
/// The times of packets: nanoseconds since 1970-01-01 00:00 UTC, so bounded that they can be reckoned with.

#include <algorithm>
#include <cstdint>

namespace rdmawire {

/// No packet is further from 1970 than this, in nanoseconds: the years 1823 to 2116. The difference of any two times
/// fits into 64 bits, and so does an hour more; twice the difference does not.
constexpr std::int64_t farthest_time = (std::int64_t{1} << 62) - (std::int64_t{1} << 42);

/// The time that is reckoned with for one that a file or a peer may have made up: itself, or the nearest within reach.
constexpr std::int64_t bounded_time(std::int64_t ns) { return std::clamp(ns, -farthest_time, farthest_time); }

/// later - earlier, or the number nearest to it: of times that were not bounded.
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

}  // namespace rdmawire
