#pragma once
/// Numbers in cases count from where the connection began.

#include <cstdint>
#include <string>

#include "dissectors/protocol/modular.hpp"

namespace rdmawire::conformance {

/// A PSN, from the first one of its direction: psn(+1) is the second request's.
struct psn {
  std::int32_t value = 0;
  constexpr explicit psn(std::int32_t from_first) : value(from_first) {}
  friend constexpr bool operator==(psn, psn) = default;
  friend constexpr psn operator+(psn a, std::int32_t n) { return psn(a.value + n); }
};
/// "+3", "-1"
std::string to_string(psn relative);

/// Bytes of payload that can be told apart: `count` of them, from `seed` up.
std::string pattern_bytes(std::size_t count, std::uint8_t seed = 1);

}  // namespace rdmawire::conformance
