#pragma once
/// For fuzz targets only: reads numbers from the fuzzer's input.

#include <algorithm>
#include <cstdint>

#include "dissectors/protocol/bits.hpp"

namespace rdmawire::device::testing {

/// Reads numbers. Returns zeros after the end of the input.
class Input {
 public:
  explicit Input(Bytes bytes) : bytes_(bytes) {}
  [[nodiscard]] bool empty() const { return bytes_.empty(); }
  std::uint8_t byte() {
    if (bytes_.empty()) return 0;
    const std::uint8_t first = bytes_[0];
    bytes_ = bytes_.subspan(1);
    return first;
  }
  std::uint32_t number() { return static_cast<std::uint32_t>(byte()) << 8 | byte(); }
  Bytes take(std::size_t count) {
    const Bytes taken = bytes_.first(std::min(count, bytes_.size()));
    bytes_ = bytes_.subspan(taken.size());
    return taken;
  }

 private:
  Bytes bytes_;
};

}  // namespace rdmawire::device::testing
