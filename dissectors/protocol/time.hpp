#pragma once
/// Packet times: nanoseconds since 1970-01-01 00:00 UTC. Their range is limited, so that arithmetic does not overflow.

#include <algorithm>
#include <cstdint>

namespace rdmawire {

/// Maximum distance of a packet from 1970 in nanoseconds, which allows the years 1823 to 2116. The difference of two
/// times plus one hour fits into 64 bits, but twice the difference may not fit.
constexpr std::int64_t farthest_time = (std::int64_t{1} << 62) - (std::int64_t{1} << 42);

/// Clamps a time from an untrusted file or peer to the supported range.
constexpr std::int64_t bounded_time(std::int64_t ns) { return std::clamp(ns, -farthest_time, farthest_time); }

/// Returns later - earlier. Accepts any times. Saturates.
constexpr std::int64_t difference(std::int64_t later, std::int64_t earlier) {
  std::int64_t value = 0;
  if (!__builtin_sub_overflow(later, earlier, &value)) return value;
  return later < earlier ? INT64_MIN : INT64_MAX;
}

/// Adds a duration to `sum`. Saturates. Ignores negative durations (the clock was set back), so that the sum does not
/// depend on the order of calls.
constexpr void accumulate(std::int64_t& sum, std::int64_t duration) {
  if (duration > 0 && __builtin_add_overflow(sum, duration, &sum)) sum = INT64_MAX;
}

}  // namespace rdmawire
