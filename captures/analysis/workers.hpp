#pragma once
/// Runs a function on several threads.

#include <cstddef>
#include <functional>

namespace rdmawire::captures::analysis {

/// Maximum number of threads. More threads would need more memory without a faster analysis.
inline constexpr std::size_t most_workers = 256;

/// Calls `work` concurrently on this thread and on up to `count` - 1 other threads. Returns when all calls have
/// returned. If the system cannot start more threads, uses fewer, so `work` must fetch its tasks one by one until none
/// is left. Rethrows the first exception of a call.
void work_together(std::size_t count, const std::function<void()>& work);

}  // namespace rdmawire::captures::analysis
