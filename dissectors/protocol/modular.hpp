#pragma once
/// Serial numbers that wrap: PSN, MSN and SSN modulo 2^24 (IBTA vol 1, 9.2.1 and 9.7), DDP's MSN modulo 2^32 (RFC 5041,
/// 5.3), TCP sequence numbers. Comparison is valid within half of the number space, as the specifications define.

#include <compare>
#include <cstdint>

namespace rdmawire {

/// A serial number of `Bits` bits. `Tag` creates different types for numbers of different meaning, so that a PSN cannot
/// be compared with an MSN.
template <unsigned Bits, typename Tag>
class Modular {
  static_assert(Bits >= 2 && Bits <= 32);

 public:
  static constexpr std::uint32_t mask = static_cast<std::uint32_t>((1ULL << Bits) - 1);
  static constexpr std::uint32_t half = 1U << (Bits - 1);

  constexpr Modular() = default;
  constexpr explicit Modular(std::uint32_t value) : value_(value & mask) {}
  [[nodiscard]] constexpr std::uint32_t value() const { return value_; }

  friend constexpr Modular operator+(Modular a, std::int64_t n) {
    return Modular(static_cast<std::uint32_t>(a.value_ + static_cast<std::uint64_t>(n)));
  }
  friend constexpr Modular operator-(Modular a, std::int64_t n) { return a + -n; }
  constexpr Modular& operator+=(std::int64_t n) { return *this = *this + n; }
  constexpr Modular& operator++() { return *this += 1; }

  /// Returns the signed distance from `b` to `a`, from -2^(Bits-1) to 2^(Bits-1)-1.
  friend constexpr std::int32_t operator-(Modular a, Modular b) {
    const std::uint32_t d = (a.value_ - b.value_) & mask;
    return d < half ? static_cast<std::int32_t>(d)
                    : static_cast<std::int32_t>(static_cast<std::int64_t>(d) - (1LL << Bits));
  }
  friend constexpr bool operator==(Modular a, Modular b) { return a.value_ == b.value_; }
  /// Requires that the numbers are less than half of the number space apart.
  friend constexpr bool operator<(Modular a, Modular b) { return a - b < 0; }
  friend constexpr bool operator>(Modular a, Modular b) { return b < a; }
  friend constexpr bool operator<=(Modular a, Modular b) { return a - b <= 0; }
  friend constexpr bool operator>=(Modular a, Modular b) { return a - b >= 0; }

 private:
  std::uint32_t value_ = 0;
};

using Psn = Modular<24, struct PsnTag>;
using Msn = Modular<24, struct MsnTag>;
using DdpMsn = Modular<32, struct DdpMsnTag>;
using TcpSeq = Modular<32, struct TcpSeqTag>;

}  // namespace rdmawire
