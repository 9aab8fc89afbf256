#include "conformance/fuzzer/trace.hpp"

#include <array>
#include <atomic>
#include <mutex>

namespace rdmawire::fuzzer {

namespace {

/// State of a traced thread. It is found by the thread pointer with one load. A thread_local variable would require a
/// call for each block, because the library may be loaded late.
struct alignas(64) Traced {
  std::atomic<const void*> thread{};
  const std::uint64_t* words = nullptr;  ///< words of the map
  EdgeMap* map = nullptr;
  std::uint32_t before = 0;  ///< number of the previous block
  std::mutex used;           ///< held while a thread uses the slot. Other threads with the same slot wait
};
constinit std::array<Traced, 64> all;

inline const void* this_thread() {
#if defined(__x86_64__) || defined(__aarch64__)
  return __builtin_thread_pointer();
#else
  static thread_local char here;
  return &here;
#endif
}

inline Traced& of(const void* thread) {
  const auto number = reinterpret_cast<std::uintptr_t>(thread);
  return all[(number >> 12 ^ number >> 18 ^ number >> 23) % all.size()];
}

}  // namespace

Tracing::Tracing(EdgeMap* map) : map_(map) {
  if (!map_) return;
  Traced& traced = of(this_thread());
  traced.used.lock();
  traced.map = map_;
  traced.words = map_->words();
  traced.before = 0;
  traced.thread.store(this_thread(), std::memory_order_relaxed);
}

Tracing::~Tracing() {
  if (!map_) return;
  Traced& traced = of(this_thread());
  traced.thread.store(nullptr, std::memory_order_relaxed);
  traced.used.unlock();
}

}  // namespace rdmawire::fuzzer

/// Called by compiler-generated code at the start of each basic block.
extern "C" void __sanitizer_cov_trace_pc() {  // NOLINT(bugprone-reserved-identifier)
  using namespace rdmawire::fuzzer;
  const void* thread = this_thread();
  Traced& traced = of(thread);
  if (traced.thread.load(std::memory_order_relaxed) != thread) return;
  // Subtract the library's address, which differs between runs.
  const auto distance = reinterpret_cast<std::uintptr_t>(__builtin_return_address(0)) -
                        reinterpret_cast<std::uintptr_t>(&__sanitizer_cov_trace_pc);
  const std::uint32_t block = static_cast<std::uint32_t>(distance) * 0x9e3779b1U;
  const std::uint32_t edge = (block ^ (traced.before << 7 | traced.before >> 25)) >> 12;
  static_assert(EdgeMap::places == 1U << 20);
  traced.before = block;
  if ((traced.words[edge / 64] >> edge % 64 & 1) == 0) traced.map->add(edge);
}
