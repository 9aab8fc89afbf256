#pragma once
/// For fuzz targets only: an input as the numbers that it is made of.

#include <algorithm>
#include <cstdint>

#include "dissectors/protocol/bits.hpp"

namespace rdmawire::device::testing {

/// Numbers out of the input; zeros behind its end.
class Input {
 public:
  explicit Input(Bytes octets) : octets_(octets) {}
  [[nodiscard]] bool empty() const { return octets_.empty(); }
  std::uint8_t octet() {
    if (octets_.empty()) return 0;
    const std::uint8_t first = octets_[0];
    octets_ = octets_.subspan(1);
    return first;
  }
  std::uint32_t number() { return static_cast<std::uint32_t>(octet()) << 8 | octet(); }
  Bytes take(std::size_t count) {
    const Bytes taken = octets_.first(std::min(count, octets_.size()));
    octets_ = octets_.subspan(taken.size());
    return taken;
  }

 private:
  Bytes octets_;
};

}  // namespace rdmawire::device::testing
