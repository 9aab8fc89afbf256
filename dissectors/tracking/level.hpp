#pragma once
/// How full a bounded table was.

#include <cstdint>

namespace rdmawire::tracking {

/// The highest level of a bounded table. If packets are divided among several trackers by endpoint pair, and the sum of
/// their levels is within the limit, neither these trackers nor a single tracker of all packets evict from this table.
struct Level {
  std::uint64_t highest = 0, limit = 0;
};

}  // namespace rdmawire::tracking
