#pragma once
/// Seeded random numbers for step generators.

#include <cstdint>
#include <iterator>

#include "conformance/device/roce/random.hpp"

namespace rdmawire::fuzzer {

/// Seeded random number generator.
class Rng {
 public:
  explicit Rng(std::uint64_t seed) : random_(seed) {}
  std::uint64_t any() { return random_.next(); }
  /// Return a number in [0, count). `count` must not be 0.
  std::uint64_t below(std::uint64_t count) { return (random_.next() >> 16) % count; }
  bool one_in(std::uint64_t count) { return below(count) == 0; }
  bool percent(std::uint64_t share) { return below(100) < share; }
  template <class Range>
  const auto& of(const Range& range) {
    return *(std::begin(range) + static_cast<std::ptrdiff_t>(below(std::size(range))));
  }

 private:
  device::Random random_;
};

}  // namespace rdmawire::fuzzer
