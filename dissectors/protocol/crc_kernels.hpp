#pragma once
/// Multiplication modulo the polynomial of CRC-32, with the processor's carry-less multiplication instructions.
///
/// Numbers are bit-reflected, as in CRC-32: the highest bit is the coefficient of x^0.

#include <cstddef>
#include <cstdint>

namespace rdmawire::carryless {

/// Returns whether this processor has the instructions that the functions below require.
bool available();
/// Returns a * b modulo the polynomial.
std::uint32_t multiply(std::uint32_t a, std::uint32_t b);
/// Returns the sum of a[i] * b[i] for i < count, modulo the polynomial.
std::uint32_t sum_of_products(const std::uint32_t* a, const std::uint32_t* b, std::size_t count);

}  // namespace rdmawire::carryless
