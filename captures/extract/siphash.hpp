#pragma once
/// SipHash-2-4, a pseudorandom function of short messages with a 128-bit key. Jean-Philippe Aumasson and Daniel J.
/// Bernstein, "SipHash: a fast short-input PRF", 2012.

#include <bit>
#include <cstdint>

#include "dissectors/protocol/bits.hpp"

namespace rdmawire::captures {

struct SipKey {
  std::uint64_t low = 0;   ///< bytes 0 to 7, little endian
  std::uint64_t high = 0;  ///< bytes 8 to 15
};

inline std::uint64_t siphash(const SipKey& key, Bytes message) {
  std::uint64_t a = key.low ^ 0x736f6d6570736575, b = key.high ^ 0x646f72616e646f6d, c = key.low ^ 0x6c7967656e657261,
                d = key.high ^ 0x7465646279746573;
  auto rounds = [&](int count) {
    while (count-- > 0) {
      a += b, b = std::rotl(b, 13) ^ a, a = std::rotl(a, 32);
      c += d, d = std::rotl(d, 16) ^ c;
      a += d, d = std::rotl(d, 21) ^ a;
      c += b, b = std::rotl(b, 17) ^ c, c = std::rotl(c, 32);
    }
  };
  auto absorb = [&](std::uint64_t word) {
    d ^= word;
    rounds(2);
    a ^= word;
  };
  const std::size_t whole = message.size() / 8 * 8;
  for (std::size_t i = 0; i < whole; i += 8) absorb(load_le(message.data() + i, 8));
  absorb(load_le(message.data() + whole, static_cast<unsigned>(message.size() - whole)) |
         static_cast<std::uint64_t>(message.size()) << 56);
  c ^= 0xff;
  rounds(4);
  return a ^ b ^ c ^ d;
}

}  // namespace rdmawire::captures
