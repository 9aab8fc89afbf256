#pragma once
/// Assumptions of the user about connections whose start was not captured.

#include <cstdint>

#include "dissectors/protocol/upper.hpp"

namespace rdmawire::tracking {

/// Numbers from `first` to `last`, both included.
struct NumberRange {
  std::uint32_t first = 0, last = 0;
  [[nodiscard]] constexpr bool has(std::uint32_t number) const { return first <= number && number <= last; }
};

/// The upper layer protocol of connections to these QPs, or with these TCP ports (iWARP).
struct AssumedUpper {
  NumberRange numbers;
  Upper protocol = Upper::unknown;
};

}  // namespace rdmawire::tracking
