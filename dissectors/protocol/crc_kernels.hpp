#pragma once
/// Multiplication modulo CRC-32's polynomial by the processor's carry-less multiplication.
///
/// Numbers are bit-reflected, as CRC-32 computes with them: the highest bit is the coefficient of x^0.

#include <cstddef>
#include <cstdint>

namespace rdmawire::carryless {

/// Returns whether this processor has the instructions that the functions below require.
bool available();
/// a times b modulo the polynomial.
std::uint32_t multiply(std::uint32_t a, std::uint32_t b);
/// The sum of a[i] times b[i] modulo the polynomial, for i < count.
std::uint32_t sum_of_products(const std::uint32_t* a, const std::uint32_t* b, std::size_t count);

}  // namespace rdmawire::carryless
