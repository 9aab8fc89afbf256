#pragma once
/// Lets a program interrupt reading. A pipe may never deliver data, and a large capture takes long to read.

#include <functional>

namespace rdmawire::captures {

/// While an object exists, all readers that this thread opens and uses call the callback `keep_reading` about every 50
/// ms, even while they wait for a pipe. Once the callback returns false, reading fails with the error "interrupted".
class InterruptScope {
 public:
  explicit InterruptScope(std::function<bool()> keep_reading);
  ~InterruptScope();
  InterruptScope(const InterruptScope&) = delete;
  InterruptScope& operator=(const InterruptScope&) = delete;

  /// Returns whether this thread has a scope.
  static bool active();
  /// Calls the scope's callback if 50 ms have passed since its last call. Returns false once the callback has returned
  /// false.
  static bool keep_reading();
  /// Waits until the descriptor is readable or at its end. Returns false if the callback ended the wait.
  static bool wait_readable(int descriptor);

 private:
  struct State;
  static thread_local State* current;
  State* const state_;
};

}  // namespace rdmawire::captures
