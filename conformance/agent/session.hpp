#pragma once
/// What a controller has while it is there: its objects, and answers that are still to come.

#include <functional>
#include <list>
#include <memory>
#include <optional>
#include <string>

#include "conformance/agent/loop.hpp"
#include "conformance/agent/objects.hpp"
#include "conformance/agent/slow_calls.hpp"

namespace rdmawire::agent {

/// What the agent was started with.
struct Settings {
  std::string version = "0";
  /// What controllers prove that they know; none: nobody is asked.
  std::optional<std::string> secret;
  /// Whether controllers may run programs here.
  bool allow_run = false;
  /// Bytes that the memory regions of one session may have together.
  std::uint64_t most_memory = 256U << 20U;
  /// How long a wrong answer to a challenge is left without an answer of ours.
  Loop::Time guess_delay = 1000 * Loop::millisecond;
  /// Calls that the kernel may hold are made on threads; false: by the loop, which waits.
  bool threads = true;
};

/// Where a session's lines go. It does not end the session while it is called.
using Say = std::function<void(std::string line)>;

class Session;

/// The answer to one question, now or later. What comes after the session ended is dropped.
class Answer {
 public:
  Answer(std::weak_ptr<Session> session, std::string id, std::string command)
      : session_(std::move(session)), id_(std::move(id)), command_(std::move(command)) {}
  /// Once.
  void operator()(const Result<Json>& result) const;
  [[nodiscard]] const std::string& id() const { return id_; }

 private:
  std::weak_ptr<Session> session_;
  std::string id_;  ///< as JSON
  std::string command_;
};

class Session : public std::enable_shared_from_this<Session> {
 public:
  Session(Loop& loop, const Settings& settings, Say say);
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;
  /// Releases everything.
  ~Session() { end(); }

  [[nodiscard]] Loop& loop() const { return *loop_; }
  [[nodiscard]] const Settings& settings() const { return *settings_; }
  [[nodiscard]] Objects& objects() { return objects_; }

  /// Tells the controller something that it did not ask for: {"event": "completion", …}.
  void push(const Json& event);
  void say(std::string line);

  /// Asks `look` now, and again soon and ever less often, until it gives a result (true), `timeout` nanoseconds are
  /// over, or the session ends. `look` gets whether this is its last time. It does not end the session.
  void wait(Loop::Time timeout, std::function<bool(bool last)> look);

  /// Makes a call that the kernel may hold. Without threads its `then` comes before this returns.
  void make_slow_call(SlowCalls::Call call);
  [[nodiscard]] SlowCalls& slow_calls() { return slow_calls_; }
  /// Does it when the next slow call is over; false: so much waits already that this will not.
  bool put_off(std::function<void()> doing);

  /// Lets go of all objects and of everything that waits; nothing is said any more. Slow calls are interrupted, and
  /// waited for where the kernel does not let that happen.
  void end();
  /// As end(), but the session goes on. How many objects were released.
  std::size_t reset();
  [[nodiscard]] bool ended() const { return ended_; }

  /// A hello was understood.
  bool begun = false;
  /// So was a bye.
  bool said_bye = false;
  bool releases_wait = false;  ///< a destroy was put off; those that come later do not overtake it
  /// Bytes of memory regions that it has.
  std::uint64_t memory = 0;
  /// Bytes of random numbers that the controller is to sign; empty: it is let in.
  std::string challenge;
  unsigned wrong_guesses = 0;
  /// A wrong guess waits for its answer.
  Loop::Watch guess;
  /// Without a line for so long, the session ends; 0: never.
  Loop::Time heartbeat = 0;
  static constexpr std::size_t most_waits = 1024;
  [[nodiscard]] bool too_many_waits() const { return waits_.size() >= most_waits; }

 private:
  struct Wait {
    Loop::Time deadline, pause;
    std::function<bool(bool)> look;
    Loop::Watch timer;
  };
  void look_again(std::list<Wait>::iterator wait);

  Loop* loop_;
  const Settings* settings_;
  Say say_;
  Objects objects_;
  SlowCalls slow_calls_;
  std::list<std::function<void()>> put_off_;
  std::list<Wait> waits_;
  bool ended_ = false;
  bool quiet_ = false;  ///< while everything goes
};

/// A JSON value as a line, without its end.
std::string line_of(const Json& value);
/// {"id": …, "error": …} for a question whose id is known as JSON.
std::string error_line(std::string_view id, const Error& error);

}  // namespace rdmawire::agent
