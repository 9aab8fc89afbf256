#pragma once
/// Client of the agent protocol, docs/reference/agent-protocol.md. The agent runs on the host of a device under test
/// and executes verbs commands. verbs.hpp and connection_manager.hpp provide C++ objects for its handles.

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

/// End of a wait: a duration from now, or a time of the steady clock. A past time (0 ms) only polls.
class Deadline {
 public:
  using Clock = std::chrono::steady_clock;
  template <class Rep, class Period>
  // NOLINTNEXTLINE(google-explicit-constructor): allows next_event(2s)
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
  std::string controller = "rdmawire";      ///< name in the agent's log
  std::string credentials = {};             ///< file with the key for TLS, see credentials.hpp. Empty: plain text
  std::chrono::milliseconds timeout{5000};  ///< for connecting, and for calls without a deadline
  /// Interval of heartbeats, which keep the session alive. 0: heartbeats and the detection of silent agents are off.
  std::chrono::milliseconds heartbeat{1000};
  /// An agent that does not respond to a heartbeat for this time is lost. The agent ends the session after the same
  /// time without a line.
  std::chrono::milliseconds silence{15000};
  std::size_t most_events = 4096;  ///< limit for queued events. The oldest are dropped and counted
};

/// One session with one agent. Its end releases all objects that were created in it.
///
/// A separate thread receives messages and sends heartbeats. All functions are thread-safe, do not throw because of the
/// agent's behavior, and return at their deadline.
class Peer {
 public:
  /// "tcp:HOST:PORT", "unix:PATH" or "serial:PATH". Only TCP uses TLS. Name resolution may exceed the timeout.
  static PeerResult<Peer> connect(const std::string& address, const Options& options = {});
  /// Uses an open stream and takes ownership of it. Uses TLS if `options.credentials` is set.
  static PeerResult<Peer> over(Descriptor stream, const Options& options = {});

  Peer(Peer&&) noexcept = default;
  Peer& operator=(Peer&& other) noexcept;
  /// Calls close().
  ~Peer();

  /// The response to `hello`: protocol, agent, host, kernel, privileged.
  [[nodiscard]] const nlohmann::json& hello() const;

  /// Sends a command and waits. `arguments` is an object or null. Returns the result or the error of the agent.
  PeerResult<nlohmann::json> call(std::string_view command, const nlohmann::json& arguments = nullptr);
  /// Returns Kind::timeout at the deadline. The agent continues the command, and its response is discarded.
  PeerResult<nlohmann::json> call(std::string_view command, const nlohmann::json& arguments, Deadline deadline);

  /// Sends a command without waiting. Pass the returned number once to collect() or forget(). Until then the response
  /// is kept.
  PeerResult<std::uint64_t> send(std::string_view command, const nlohmann::json& arguments = nullptr);
  /// Returns the response to a sent command. After Kind::timeout, the call may be repeated.
  PeerResult<nlohmann::json> collect(std::uint64_t number, Deadline deadline);
  /// Discards the response.
  void forget(std::uint64_t number);

  using EventFilter = std::function<bool(const Event&)>;
  /// Returns the oldest event that matches the filter (default: any). nullopt at the deadline. Other events stay
  /// queued. Returns an error if the connection is lost and no matching event is queued.
  PeerResult<std::optional<Event>> next_event(Deadline deadline, const EventFilter& filter = nullptr);
  /// Number of events dropped because the queue was full.
  [[nodiscard]] std::uint64_t dropped_events() const;

  /// For poll(2): readable if there is an event or a response to collect, or if the connection is lost.
  [[nodiscard]] int descriptor() const;
  /// Returns why the connection was lost. nullopt while it exists.
  [[nodiscard]] std::optional<PeerError> lost() const;
  /// Errors that occurred when destructors of handles released objects: their number, and the first error.
  struct ReleaseErrors {
    std::uint64_t count = 0;
    std::optional<PeerError> first;
  };
  [[nodiscard]] ReleaseErrors unattended() const;

  /// Ends the session. The agent releases all objects. Later calls return Kind::lost. A second call has no effect.
  void close();

  /// Used by the handles in verbs.hpp.
  [[nodiscard]] const std::shared_ptr<Session>& session() const { return session_; }

 private:
  explicit Peer(std::shared_ptr<Session> session);
  std::shared_ptr<Session> session_;
};

}  // namespace rdmawire::peer
