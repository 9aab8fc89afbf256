#pragma once
/// Address space that is kept for failed allocations.

#include <atomic>
#include <cstddef>
#include <new>

namespace rdmawire::captures::analysis {

/// While an object exists, a failed allocation releases reserved memory and is repeated. The first part lets it
/// succeed, because it can be in a destructor, where an exception would terminate the program: a JSON value allocates
/// when it is destroyed. The second part is released for the destructors that run during the exception of check() or of
/// the next failed allocation. Only one object may exist.
class MemoryReserve {
 public:
  /// Throws std::bad_alloc if there is no memory for the reserve.
  MemoryReserve();
  MemoryReserve(const MemoryReserve&) = delete;
  MemoryReserve& operator=(const MemoryReserve&) = delete;
  ~MemoryReserve();
  /// Reserves used parts again, for the next step of the work. Throws std::bad_alloc like the constructor.
  static void renew();
  /// Throws std::bad_alloc if the first part was released. Long loops call it for each element. Does nothing if no
  /// object exists.
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
