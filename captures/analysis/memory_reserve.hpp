#pragma once
/// Memory that is kept for failed allocations.

#include <atomic>
#include <cstddef>
#include <new>

namespace rdmawire::captures::analysis {

/// While an object exists, a failed allocation releases reserved memory and is repeated. Only one object may exist.
///
/// The first part of the reserve makes the failed allocation succeed. It may be in a destructor, where an exception
/// would terminate the program: a JSON value allocates memory when it is destroyed. The second part is for the
/// destructors that run after check(), or the next failed allocation, has thrown an exception.
class MemoryReserve {
 public:
  /// Throws std::bad_alloc if there is not enough memory for the reserve.
  MemoryReserve();
  MemoryReserve(const MemoryReserve&) = delete;
  MemoryReserve& operator=(const MemoryReserve&) = delete;
  ~MemoryReserve();
  /// Fills the reserve again for the next step of the work. Throws std::bad_alloc like the constructor.
  static void renew();
  /// Throws std::bad_alloc if the first part was released. Long loops must call it for each element. It has no effect
  /// without an object.
  static void check() {
    if (used) give_up();
  }

 private:
  [[noreturn]] static void give_up();
  static void release();
  static void unmap();
  static inline std::atomic<bool> used = false;
  std::new_handler earlier_ = nullptr;
};

}  // namespace rdmawire::captures::analysis
