#pragma once
/// Event loop: one thread, poll(2), descriptors and timers. Callbacks must not block.

#include <poll.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

namespace rdmawire::agent {

class Loop {
 public:
  /// Nanoseconds of a monotonic clock.
  using Time = std::int64_t;
  static constexpr Time millisecond = 1'000'000;

 private:
  struct Slot {
    int descriptor = -1;  ///< -1: a timer
    short events = 0;
    Time time = 0;
    std::function<void(short)> ready;
    bool alive = true;
  };

 public:
  /// Registration of a descriptor or a timer. The destructor removes it. It may outlive the loop, and its own callback
  /// may destroy it.
  class Watch {
   public:
    Watch() = default;
    Watch(Watch&& other) noexcept : slot_(std::move(other.slot_)) {}
    Watch& operator=(Watch&& other) noexcept {
      if (this != &other) {
        stop();
        slot_ = std::move(other.slot_);
      }
      return *this;
    }
    ~Watch() { stop(); }
    void stop() {
      if (slot_) slot_->alive = false;
      slot_.reset();
    }
    /// Changes the poll(2) events of a descriptor. 0: not polled, even for POLLHUP and POLLERR.
    void set_events(short events) {
      if (slot_) slot_->events = events;
    }
    explicit operator bool() const { return slot_ != nullptr; }

   private:
    friend class Loop;
    explicit Watch(std::shared_ptr<Slot> slot) : slot_(std::move(slot)) {}
    std::shared_ptr<Slot> slot_;
  };

  using Clock = std::function<Time()>;
  explicit Loop(Clock clock = monotonic) : clock_(std::move(clock)) {}
  Loop(const Loop&) = delete;
  Loop& operator=(const Loop&) = delete;

  [[nodiscard]] Time now() const { return clock_(); }

  /// Calls `ready` with the poll(2) result when one of `events`, POLLHUP, POLLERR or POLLNVAL occurs. The caller keeps
  /// ownership of the descriptor.
  [[nodiscard]] Watch add_descriptor(int descriptor, short events, std::function<void(short)> ready);
  /// Calls `due` once, at or after this time of now().
  [[nodiscard]] Watch add_timer(Time time, std::function<void()> due);
  [[nodiscard]] Watch add_timer_in(Time interval, std::function<void()> due) {
    return add_timer(now() + interval, std::move(due));
  }

  /// Waits until a descriptor is ready or a timer is due, but at most `most_wait` nanoseconds (negative: no limit).
  /// Runs the callbacks and returns their number.
  int turn(Time most_wait = -1);
  /// Runs until stop().
  void run();
  void stop() { stopped_ = true; }

  static Time monotonic();

 private:
  Clock clock_;
  std::vector<std::shared_ptr<Slot>> slots_;
  bool stopped_ = false;
};

}  // namespace rdmawire::agent
