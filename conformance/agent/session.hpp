#pragma once
/// State of a controller's session: its objects and pending responses.

#include <functional>
#include <list>
#include <memory>
#include <optional>
#include <string>

#include "conformance/agent/loop.hpp"
#include "conformance/agent/objects.hpp"
#include "conformance/agent/slow_calls.hpp"
#include "replay/peer/tls.hpp"
#include "replay/rpc/events.hpp"

namespace rdmawire::agent {

/// Settings of the agent.
struct Settings {
  std::string version = "0";
  /// TLS context for TCP connections. nullptr: they use plain text, and are only accepted from this host.
  std::shared_ptr<const peer::TlsContext> tls;
  /// Receives one line for each rejected connection.
  std::function<void(std::string line)> log;
  /// Whether controllers may run programs on this host.
  bool allow_run = false;
  /// Limit for the memory regions of one session, in bytes.
  std::uint64_t most_memory = 256U << 20U;
  /// true: slow kernel calls run in threads. false: they run in the loop and block it.
  bool threads = true;
};

/// Returns a JSON value as one line, without line end.
std::string line_of(const Json& value);

/// Sends a line. Must not end the session.
using Say = std::function<void(std::string line)>;

class Session;

/// Sends the response to one request, immediately or later. After the end of the session, it is dropped.
class Answer {
 public:
  Answer(std::weak_ptr<Session> session, std::string id, std::string command)
      : session_(std::move(session)), id_(std::move(id)), command_(std::move(command)) {}
  /// Must be called once.
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
  /// Releases all objects.
  ~Session() { end(); }

  [[nodiscard]] Loop& loop() const { return *loop_; }
  [[nodiscard]] const Settings& settings() const { return *settings_; }
  [[nodiscard]] Objects& objects() { return objects_; }

  /// Sends an event to the controller.
  template <class Event>
  void push(const Event& event) {
    say(line_of(rpc::event_of(event)));
  }
  void say(std::string line);

  /// Calls `look` immediately, and then at increasing intervals, until it returns true, `timeout` nanoseconds have
  /// passed, or the session ends. The argument is true when the time has passed. `look` must not end the session.
  void wait(Loop::Time timeout, std::function<bool(bool last)> look);

  /// Makes a call that may block in the kernel. Without threads, `then` is called before this function returns.
  void make_slow_call(SlowCalls::Call call);
  [[nodiscard]] SlowCalls& slow_calls() { return slow_calls_; }
  /// Runs `doing` after the end of the next slow call. Returns false if too many functions are waiting.
  bool put_off(std::function<void()> doing);

  /// Releases all objects and pending operations. No more lines are sent. Slow calls are interrupted or, where the
  /// kernel does not allow that, awaited.
  void end();
  /// Same as end(), but the session continues. Returns the number of released objects.
  std::size_t reset();
  [[nodiscard]] bool ended() const { return ended_; }

  /// true: the command `hello` was accepted.
  bool begun = false;
  /// true: the command `bye` was accepted.
  bool said_bye = false;
  bool releases_wait = false;  ///< true: a `destroy` is deferred. Later ones must wait for it
  /// Number of bytes in the session's memory regions.
  std::uint64_t memory = 0;
  /// The session ends after this time without a line. 0: never.
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
  bool quiet_ = false;  ///< true: the session is ending, and sends nothing
};

/// Returns the line {"id": …, "error": …}. `id`: the request's id as JSON.
std::string error_line(std::string_view id, const Error& error);

}  // namespace rdmawire::agent
