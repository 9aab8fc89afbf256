#pragma once
/// The fill level of a bounded table.

#include <cstdint>

namespace rdmawire::tracking {

/// The highest level of a bounded table. Packets can be divided by endpoint pair among several trackers. If the sum of
/// their levels is within the limit, these trackers evict nothing from the table. A single tracker of all packets would
/// also evict nothing.
struct Level {
  std::uint64_t highest = 0, limit = 0;
};

}  // namespace rdmawire::tracking
