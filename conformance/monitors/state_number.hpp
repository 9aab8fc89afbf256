#pragma once
/// Hashes the state of a monitored object to one number.

#include <algorithm>
#include <cstdint>

namespace rdmawire::conformance {

/// Returns a hash of flags and small numbers, which depends on their order.
template <class... Values>
constexpr std::uint64_t state_number(Values... values) {
  std::uint64_t number = 1;
  ((number = (number ^ static_cast<std::uint64_t>(values)) * 0x9e3779b97f4a7c15, number ^= number >> 29), ...);
  return number;
}

/// Reduces a count to 0, 1, or 2 for more.
constexpr std::uint64_t few(std::uint64_t count) { return std::min<std::uint64_t>(count, 2); }

}  // namespace rdmawire::conformance
