#pragma once
/// Deterministic random numbers: SplitMix64 from a seed.

#include <cstdint>

namespace rdmawire::device {

class Random {
 public:
  explicit constexpr Random(std::uint64_t seed) : state_(seed) {}
  constexpr std::uint64_t next() {
    std::uint64_t z = state_ += 0x9e3779b97f4a7c15ULL;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9ULL;
    z = (z ^ z >> 27) * 0x94d049bb133111ebULL;
    return z ^ z >> 31;
  }
  constexpr std::uint32_t bits(unsigned count) { return static_cast<std::uint32_t>(next() >> (64 - count)); }

 private:
  std::uint64_t state_;
};

}  // namespace rdmawire::device
