#pragma once
/// Shared state of Peer and its handles: connection, thread, pending requests and received messages.

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <map>
#include <mutex>
#include <string>
#include <thread>

#include "replay/peer/peer.hpp"
#include "replay/peer/tls.hpp"

namespace rdmawire::peer {

class Session {
 public:
  Session(Descriptor stream, std::optional<TlsChannel> tls, Options options);
  ~Session();
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;

  /// Sends hello and waits for the response.
  PeerResult<void> greet();

  PeerResult<nlohmann::json> call(std::string_view command, const nlohmann::json& arguments, Deadline deadline);
  PeerResult<nlohmann::json> call(std::string_view command, const nlohmann::json& arguments) {
    return call(command, arguments, options_.timeout);
  }
  PeerResult<std::uint64_t> send(std::string_view command, const nlohmann::json& arguments);
  PeerResult<nlohmann::json> collect(std::uint64_t number, Deadline deadline);
  void forget(std::uint64_t number);
  /// Sends a request without waiting. Peer::unattended() reports an error response.
  void release(std::string_view command, const nlohmann::json& arguments);

  PeerResult<std::optional<Event>> next_event(Deadline deadline, const Peer::EventFilter& filter);
  std::uint64_t dropped_events();
  std::optional<PeerError> lost();
  Peer::ReleaseErrors unattended();
  [[nodiscard]] int descriptor() const { return ready_.get(); }
  [[nodiscard]] const Options& options() const { return options_; }
  [[nodiscard]] const nlohmann::json& hello() const { return hello_; }

  void close();

 private:
  enum class ReplyDestination : std::uint8_t { by_call, by_collect, nowhere, heartbeat, release };
  struct Question {
    std::string command;
    ReplyDestination wanted = ReplyDestination::by_call;
    std::optional<PeerResult<nlohmann::json>> answer;
    std::size_t bytes = 0;  // length of the response line
  };
  struct HeldEvent {
    Event event;
    std::size_t bytes = 0;
    std::uint64_t serial = 0;
  };
  using Questions = std::map<std::uint64_t, Question>;

  // The following functions require mutex_.
  PeerResult<std::uint64_t> ask(std::string_view command, const nlohmann::json& arguments, ReplyDestination wanted);
  PeerResult<void> write_line(std::string line);
  PeerResult<nlohmann::json> wait(std::unique_lock<std::mutex>& lock, Questions::iterator question, Deadline deadline);
  PeerResult<nlohmann::json> take(Questions::iterator question);
  void lose(PeerError error);
  void hear(std::string_view line);
  void hear(Answer answer, std::size_t bytes);
  void hear(Event event, std::size_t bytes);
  void show_readiness();
  void wake();

  // Functions of the thread.
  void run();
  bool read_some();
  void write_some();
  std::chrono::milliseconds keep_alive();

  const Options options_;
  Descriptor stream_;
  std::optional<TlsChannel> tls_;
  const Descriptor ready_;  // eventfd for the caller's poll(2)
  const Descriptor wake_;   // eventfd to wake the thread
  nlohmann::json hello_;

  std::mutex mutex_;
  std::condition_variable changed_;
  std::string outgoing_;
  Questions questions_;
  std::uint64_t last_number_ = 0;
  std::deque<HeldEvent> events_;
  std::size_t held_bytes_ = 0;     // responses and events that are not yet fetched
  std::uint64_t last_serial_ = 0;  // of events
  std::uint64_t dropped_events_ = 0;
  std::uint64_t collectable_ = 0;  // responses waiting for collect()
  Peer::ReleaseErrors unattended_;
  std::optional<PeerError> lost_;
  std::string hello_id_;
  std::optional<PeerResult<nlohmann::json>> hello_answer_;
  std::optional<PeerError> early_error_;  // error without a request ID, received before the response to hello
  bool greeted_ = false;  // the response to hello was received. Earlier messages belong to a previous session
  bool beating_ = false;  // hello is complete, so heartbeats may be sent
  bool shown_ready_ = false;
  bool stopping_ = false;
  bool heartbeat_open_ = false;
  Deadline::Clock::time_point last_heard_, heartbeat_asked_, next_heartbeat_;
  std::once_flag closed_;

  LineBuffer lines_;  // used only by the thread
  std::thread thread_;
};

}  // namespace rdmawire::peer
