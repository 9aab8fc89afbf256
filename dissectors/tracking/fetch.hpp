#pragma once
/// Prefetching of memory into the cache.

#include <cstddef>
#include <cstdint>

namespace rdmawire::tracking {

/// Prefetches the cache lines of `bytes` bytes at `at`. Any address is allowed, because prefetching does not access
/// memory.
inline void fetch(const void* at, std::size_t bytes = 1) {
  constexpr std::uintptr_t line = 64;
  const auto begin = reinterpret_cast<std::uintptr_t>(at) & ~(line - 1);
  const auto end = reinterpret_cast<std::uintptr_t>(at) + bytes;
  for (std::uintptr_t p = begin; p < end; p += line) __builtin_prefetch(reinterpret_cast<const void*>(p), 1);
  // Without this, GCC treats a function that only prefetches as free of side effects, and removes calls of it.
  asm volatile("");
}

/// Prefetches from `begin` up to, but not including, `end`.
inline void fetch_between(const void* begin, const void* end) {
  fetch(begin, reinterpret_cast<std::uintptr_t>(end) - reinterpret_cast<std::uintptr_t>(begin));
}

}  // namespace rdmawire::tracking
