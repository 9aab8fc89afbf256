#pragma once
/// Loads and stores of bit fields in network byte order. All shifting and masking is here.

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string_view>
#include <type_traits>

namespace rdmawire {

using Bytes = std::span<const std::uint8_t>;
using MutableBytes = std::span<std::uint8_t>;

/// A string that can be a template argument: `view.get<"psn">()`.
template <std::size_t N>
struct FixedString {
  char text[N]{};
  // NOLINTNEXTLINE(google-explicit-constructor): a literal must convert
  consteval FixedString(const char (&literal)[N]) { std::copy_n(literal, N, text); }
  [[nodiscard]] constexpr std::string_view view() const { return {text, N - 1}; }
};

/// The smallest unsigned integer type with at least `Bits` bits, Bits <= 64.
template <unsigned Bits>
using uint_for = std::conditional_t<
    (Bits <= 8), std::uint8_t,
    std::conditional_t<(Bits <= 16), std::uint16_t, std::conditional_t<(Bits <= 32), std::uint32_t, std::uint64_t>>>;

constexpr std::uint64_t low_mask(unsigned bits) { return bits >= 64 ? ~0ULL : (1ULL << bits) - 1; }

/// Returns the first `count` (at most 8) bytes at `p` as a big-endian number.
constexpr std::uint64_t load_be(const std::uint8_t* p, unsigned count) {
  std::uint64_t value = 0;
  for (unsigned i = 0; i < count; ++i) value = value << 8 | p[i];
  return value;
}
template <unsigned Count>
inline std::uint64_t load_be(const std::uint8_t* p) {
  static_assert(Count >= 1 && Count <= 8);
  if constexpr (std::has_single_bit(Count)) {
    uint_for<Count * 8> raw;
    std::memcpy(&raw, p, Count);
    if constexpr (Count == 1 || std::endian::native == std::endian::big) return raw;
    if constexpr (Count == 2) return __builtin_bswap16(static_cast<std::uint16_t>(raw));
    if constexpr (Count == 4) return __builtin_bswap32(static_cast<std::uint32_t>(raw));
    return __builtin_bswap64(raw);
  } else {
    return load_be(p, Count);
  }
}
constexpr void store_be(std::uint8_t* p, unsigned count, std::uint64_t value) {
  for (unsigned i = 0; i < count; ++i) p[i] = static_cast<std::uint8_t>(value >> (8 * (count - 1 - i)));
}
constexpr std::uint64_t load_le(const std::uint8_t* p, unsigned count) {
  std::uint64_t value = 0;
  for (unsigned i = count; i-- > 0;) value = value << 8 | p[i];
  return value;
}
constexpr void store_le(std::uint8_t* p, unsigned count, std::uint64_t value) {
  for (unsigned i = 0; i < count; ++i) p[i] = static_cast<std::uint8_t>(value >> (8 * i));
}

/// Loads `width` (1 to 64) bits that start `bit` bits after `p`, most significant bit first. A field of 57 bits or
/// more must start at a byte boundary.
constexpr std::uint64_t load_bits(const std::uint8_t* p, unsigned bit, unsigned width) {
  const unsigned first = bit / 8, last = (bit + width - 1) / 8;
  const unsigned right = 7 - (bit + width - 1) % 8;
  return load_be(p + first, last - first + 1) >> right & low_mask(width);
}
constexpr void store_bits(std::uint8_t* p, unsigned bit, unsigned width, std::uint64_t value) {
  const unsigned first = bit / 8, last = (bit + width - 1) / 8, count = last - first + 1;
  const unsigned right = 7 - (bit + width - 1) % 8;
  const std::uint64_t mask = low_mask(width) << right;
  const std::uint64_t old = load_be(p + first, count);
  store_be(p + first, count, (old & ~mask) | (value << right & mask));
}

/// Converts a length in words of four bytes to bytes.
constexpr std::uint64_t bytes_of_words(std::uint64_t words) { return words * 4; }

}  // namespace rdmawire
