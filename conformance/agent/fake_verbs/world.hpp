#pragma once
/// What the two stand-ins share: one lock, under which every call works, and the gate that holds calls up.

#include <mutex>

namespace rdmawire::agent::fake_verbs {

/// Held by whoever is in a call of a stand-in.
class Lock {
 public:
  Lock();
  Lock(const Lock&) = delete;
  Lock& operator=(const Lock&) = delete;
  ~Lock();
};

/// Waits while calls of that name are held up, see block_calls(). Without the lock. 0, or EINTR.
int wait_at_gate(const char* call);

}  // namespace rdmawire::agent::fake_verbs
