#pragma once
/// Memory brought into the cache before it is needed.

#include <cstddef>
#include <cstdint>

namespace rdmawire::tracking {

/// Begins to load the cache lines of `bytes` bytes from `at` on. `at` may be anything: nothing is read.
inline void fetch(const void* at, std::size_t bytes = 1) {
  constexpr std::uintptr_t line = 64;
  const auto begin = reinterpret_cast<std::uintptr_t>(at) & ~(line - 1);
  const auto end = reinterpret_cast<std::uintptr_t>(at) + bytes;
  for (std::uintptr_t p = begin; p < end; p += line) __builtin_prefetch(reinterpret_cast<const void*>(p), 1);
  // GCC takes a function that only fetches for one without effect, and leaves out the calls.
  asm volatile("");
}

/// Likewise from `begin` to before `end`.
inline void fetch_between(const void* begin, const void* end) {
  fetch(begin, reinterpret_cast<std::uintptr_t>(end) - reinterpret_cast<std::uintptr_t>(begin));
}

}  // namespace rdmawire::tracking
