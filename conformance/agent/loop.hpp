#pragma once
/// One thread, poll(2), descriptors and timers. Nothing that is called from here may wait.

#include <poll.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

namespace rdmawire::agent {

class Loop {
 public:
  /// Nanoseconds of a clock that only goes forward.
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
  /// Keeps a descriptor or a timer in its loop; without it, it is out. May outlive the loop, and may be let go of from
  /// within its own callback.
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
    /// Other events of poll(2) for a descriptor. 0: not even POLLHUP and POLLERR are looked for.
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

  /// Calls `ready` with what poll(2) said, whenever it says one of `events`, POLLHUP, POLLERR or POLLNVAL. The
  /// descriptor stays the caller's.
  [[nodiscard]] Watch add_descriptor(int descriptor, short events, std::function<void(short)> ready);
  /// Calls `due` once, not before that time of now().
  [[nodiscard]] Watch add_timer(Time time, std::function<void()> due);
  [[nodiscard]] Watch add_timer_in(Time interval, std::function<void()> due) {
    return add_timer(now() + interval, std::move(due));
  }

  /// Waits until something is ready or due, `most_wait` at most, and calls it. Negative: as long as it takes. How many
  /// were called.
  int turn(Time most_wait = -1);
  /// Turns until stop().
  void run();
  void stop() { stopped_ = true; }

  static Time monotonic();

 private:
  Clock clock_;
  std::vector<std::shared_ptr<Slot>> slots_;
  bool stopped_ = false;
};

}  // namespace rdmawire::agent
