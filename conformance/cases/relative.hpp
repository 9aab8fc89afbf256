#pragma once
/// Numbers in cases are relative to the start of the connection.

#include <cstdint>
#include <string>

#include "dissectors/protocol/modular.hpp"

namespace rdmawire::conformance {

/// A PSN relative to the first one of its direction: psn(+1) is that of the second request.
struct psn {
  std::int32_t value = 0;
  constexpr explicit psn(std::int32_t from_first) : value(from_first) {}
  friend constexpr bool operator==(psn, psn) = default;
  friend constexpr psn operator+(psn a, std::int32_t n) { return psn(a.value + n); }
};
/// "+3", "-1"
std::string to_string(psn relative);

/// Distinguishable payload: `count` bytes that increase from `seed`.
std::string pattern_bytes(std::size_t count, std::uint8_t seed = 1);

}  // namespace rdmawire::conformance
