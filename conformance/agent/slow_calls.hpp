#pragma once
/// Calls that may block in the kernel for seconds, for example TCP connection establishment or neighbor resolution.
/// Each one runs in its own thread while the loop continues.

#include <atomic>
#include <functional>
#include <list>
#include <memory>
#include <thread>
#include <vector>

#include "conformance/agent/loop.hpp"
#include "conformance/agent/objects.hpp"

namespace rdmawire::agent {

class SlowCalls {
 public:
  /// Maximum number of concurrent calls per session. Further calls wait.
  static constexpr std::size_t most_threads = 16;

  explicit SlowCalls(Loop& loop) : loop_(&loop) {}
  SlowCalls(const SlowCalls&) = delete;
  SlowCalls& operator=(const SlowCalls&) = delete;
  ~SlowCalls() { settle(); }

  struct Call {
    /// Runs in the thread. May access only captured values and objects in `uses`. Returns 0 or an errno.
    std::function<int()> make;
    /// Runs in the loop's thread with the result of `make`, or with ECANCELED if the call was interrupted or not made.
    std::function<void(int)> then;
    std::vector<Handle> uses;  ///< kept alive until `then`
    Handle takes = 0;          ///< one of `uses` that no other call may use at the same time. 0: none
  };
  void begin(Call call);

  /// True if there are calls.
  [[nodiscard]] bool any() const { return !calls_.empty(); }
  [[nodiscard]] bool uses(Handle handle) const;
  [[nodiscard]] bool takes(Handle handle) const;

  /// Interrupts calls that use the object, as soon as the kernel allows it. Their `then` runs in a later turn of the
  /// loop.
  void interrupt(Handle handle);
  /// Interrupts all calls, and waits until they have ended. Runs every `then` before it returns.
  void settle();
  /// Called after each `then`, except in settle(). The objects of the call may be unused now.
  std::function<void()> freed;

 private:
  struct Entry {
    Call call;
    std::thread thread;
    std::atomic<bool> done = false;
    int number = 0;
    bool unwanted = false;
  };
  using Entries = std::list<std::unique_ptr<Entry>>;
  void start_some();
  void start(Entry& entry);
  void collect();
  void press();
  [[nodiscard]] bool finished(const Entry& entry) const;

  Loop* loop_;
  Entries calls_;
  int woken_ = -1;  ///< eventfd that threads write when they are done
  Loop::Watch watch_, pressing_;
  bool settling_ = false;
};

}  // namespace rdmawire::agent
