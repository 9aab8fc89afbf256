#pragma once
/// Interruption of reading. A pipe may never deliver data, and reading a large capture takes long.

#include <functional>

namespace rdmawire::captures {

/// While an object exists, all readers that this thread opens and uses call `keep_reading` about every 50 ms, also
/// while they wait for a pipe. If it returns false, reading fails with the error "interrupted", now and in later calls.
class InterruptScope {
 public:
  explicit InterruptScope(std::function<bool()> keep_reading);
  ~InterruptScope();
  InterruptScope(const InterruptScope&) = delete;
  InterruptScope& operator=(const InterruptScope&) = delete;

  /// Returns whether this thread has a scope.
  static bool active();
  /// Calls `keep_reading` if 50 ms have passed since the last call. Returns false if this or an earlier call returned
  /// false.
  static bool keep_reading();
  /// Waits until the descriptor is readable or at its end. Returns false if the scope ends the wait.
  static bool wait_readable(int descriptor);

 private:
  struct State;
  static thread_local State* current;
  State* const state_;
};

}  // namespace rdmawire::captures
