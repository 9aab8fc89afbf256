#pragma once
/// The client of the agent's protocol, docs/agent.md: asks the program beside a device under test to do with verbs what
/// a test needs. verbs.hpp and connection_manager.hpp give what is made there the form of C++ objects.

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>

#include "replay/peer/channel.hpp"
#include "replay/peer/error.hpp"
#include "replay/peer/message.hpp"

namespace rdmawire::peer {

class Session;

/// When waiting ends: a time from now, or a time of the steady clock. In the past (0 ms): only what is there already.
class Deadline {
 public:
  using Clock = std::chrono::steady_clock;
  template <class Rep, class Period>
  // NOLINTNEXTLINE(google-explicit-constructor): next_event(2s) reads as it means
  Deadline(std::chrono::duration<Rep, Period> from_now)
      : time_(Clock::now() + (from_now < longest ? std::chrono::ceil<Clock::duration>(from_now) : longest)) {}
  // NOLINTNEXTLINE(google-explicit-constructor)
  Deadline(Clock::time_point time) : time_(time) {}

  [[nodiscard]] Clock::time_point time() const { return time_; }

 private:
  static constexpr Clock::duration longest = std::chrono::hours(24 * 365);
  Clock::time_point time_;
};

struct Options {
  std::string controller = "rdmawire";      ///< how we are called in the agent's log
  std::string secret_file = {};             ///< empty: no secret
  std::chrono::milliseconds timeout{5000};  ///< for connecting, and for an answer where a call names no time
  /// A line goes out at least so often, so that the agent knows that we live. 0: none, and no silence is noticed.
  std::chrono::milliseconds heartbeat{1000};
  /// An agent that owes an answer to a heartbeat and says nothing at all for so long is lost; one that hears nothing of
  /// us for so long ends the session.
  std::chrono::milliseconds silence{15000};
  std::size_t most_events = 4096;  ///< that wait for next_event(); then the oldest are dropped, and counted
};

/// One session with one agent. Everything that was made in it ends with it.
///
/// A thread of its own reads, and sends heartbeats; every function here may be called from any thread. None of them
/// throws on what the agent says or does, and none waits beyond its deadline.
class Peer {
 public:
  /// "tcp:HOST:PORT", "unix:PATH" or "serial:PATH". Looking a host's name up may take longer than the timeout.
  static PeerResult<Peer> connect(const std::string& address, const Options& options = {});
  /// Over an open stream, which becomes ours.
  static PeerResult<Peer> over(Descriptor stream, const Options& options = {});

  Peer(Peer&&) noexcept = default;
  Peer& operator=(Peer&& other) noexcept;
  /// As close().
  ~Peer();

  /// What the agent answered to `hello`: protocol, agent, host, kernel, authentication.
  [[nodiscard]] const nlohmann::json& hello() const;

  /// Asks and waits: `arguments` is an object, or null for none. The result that the agent gave, or its error.
  PeerResult<nlohmann::json> call(std::string_view command, const nlohmann::json& arguments = nullptr);
  /// After the deadline Kind::timeout: the command goes on over there, its answer will be thrown away.
  PeerResult<nlohmann::json> call(std::string_view command, const nlohmann::json& arguments, Deadline deadline);

  /// Asks, and waits for nothing. The number is for collect() or forget(), exactly once: until then the answer is kept.
  PeerResult<std::uint64_t> send(std::string_view command, const nlohmann::json& arguments = nullptr);
  /// The answer to what was sent. Kind::timeout leaves it to be collected later.
  PeerResult<nlohmann::json> collect(std::uint64_t number, Deadline deadline);
  /// The answer is not wanted.
  void forget(std::uint64_t number);

  using EventFilter = std::function<bool(const Event&)>;
  /// The oldest event that the filter takes (none: any), nothing when none came until the deadline; the others stay.
  /// An error: the connection is lost, and no such event had come before.
  PeerResult<std::optional<Event>> next_event(Deadline deadline, const EventFilter& filter = nullptr);
  /// Events that were dropped because nobody had taken them.
  [[nodiscard]] std::uint64_t dropped_events() const;

  /// For poll(2): readable while there is an event, an answer to collect, or the connection is over.
  [[nodiscard]] int descriptor() const;
  /// Why the connection is over; nothing while it is not.
  [[nodiscard]] std::optional<PeerError> lost() const;
  /// What went wrong with releases that nobody waited for (of handles that went out of scope): the first, and how many.
  struct ReleaseErrors {
    std::uint64_t count = 0;
    std::optional<PeerError> first;
  };
  [[nodiscard]] ReleaseErrors unattended() const;

  /// Says goodbye and ends; the agent releases everything. Later calls give Kind::lost. A second call does nothing.
  void close();

  /// What the handles of verbs.hpp hold.
  [[nodiscard]] const std::shared_ptr<Session>& session() const { return session_; }

 private:
  explicit Peer(std::shared_ptr<Session> session);
  std::shared_ptr<Session> session_;
};

}  // namespace rdmawire::peer
