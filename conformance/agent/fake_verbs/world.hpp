#pragma once
/// State shared by fake_verbs and rdmacm: one lock for all calls, and the gate for blocked calls.

#include <mutex>

namespace rdmawire::agent::fake_verbs {

/// The lock of all calls.
class Lock {
 public:
  Lock();
  Lock(const Lock&) = delete;
  Lock& operator=(const Lock&) = delete;
  ~Lock();
};

/// Waits while calls with this name are blocked, see block_calls(). The caller must not hold the lock. Returns 0, or
/// EINTR if a signal ended the wait.
int wait_at_gate(const char* call);

}  // namespace rdmawire::agent::fake_verbs
