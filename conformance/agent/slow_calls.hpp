#pragma once
/// Calls that the kernel may hold for seconds: a TCP handshake with a host that is silent, the search for a neighbor
/// that is not there. Each is made on a thread of its own, while the loop goes on.

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
  /// Calls of a session that are made at a time; more wait for their turn.
  static constexpr std::size_t most_threads = 16;

  explicit SlowCalls(Loop& loop) : loop_(&loop) {}
  SlowCalls(const SlowCalls&) = delete;
  SlowCalls& operator=(const SlowCalls&) = delete;
  ~SlowCalls() { settle(); }

  struct Call {
    /// Made on the thread. Touches nothing but what it brought and `uses`; gives 0 or an errno.
    std::function<int()> make;
    /// In the loop's thread, with what `make` gave, or ECANCELED when it was interrupted or not made any more.
    std::function<void(int)> then;
    std::vector<Handle> uses;  ///< stay until then
    Handle takes = 0;          ///< one of them that nobody else may use meanwhile; 0: none
  };
  void begin(Call call);

  /// Whether there is any.
  [[nodiscard]] bool any() const { return !calls_.empty(); }
  [[nodiscard]] bool uses(Handle handle) const;
  [[nodiscard]] bool takes(Handle handle) const;

  /// Lets calls that use the object end as soon as the kernel allows; their `then` comes in a later turn.
  void interrupt(Handle handle);
  /// Ends all, and waits for those that cannot be interrupted. Every `then` is called before it returns.
  void settle();
  /// Called after a `then`, when objects may be free; not from within settle().
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
  int woken_ = -1;  ///< an eventfd that threads write when they are done
  Loop::Watch watch_, pressing_;
  bool settling_ = false;
};

}  // namespace rdmawire::agent
