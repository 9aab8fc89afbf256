#pragma once
/// Several threads at one work, as many as the system gives.

#include <cstddef>
#include <functional>

namespace rdmawire::captures::analysis {

/// More threads than this are never made, however many are asked for: none of this work goes faster with more, and each
/// costs memory.
inline constexpr std::size_t most_workers = 256;

/// Calls `work` on this thread, and at the same time on up to `count` - 1 further ones; returns when all calls have
/// ended. Fewer where the system gives no more threads, so `work` takes what is to do piece by piece until nothing is
/// left. What a call throws comes out of this one, the first of them if there are several.
void work_together(std::size_t count, const std::function<void()>& work);

}  // namespace rdmawire::captures::analysis
