#pragma once
/// The protocol on one channel: input and output are lines, with at most one session at a time.

#include <deque>
#include <memory>
#include <string>
#include <string_view>

#include "conformance/agent/session.hpp"

namespace rdmawire::agent {

inline constexpr std::size_t most_line = 4U << 20U;

/// Independent of sockets: the caller passes received bytes to receive(), and provides a function that sends lines.
class Conversation {
 public:
  /// `say` sends a line. It may be called at any time while the object exists, and must not call the object. While
  /// `busy` returns true, received lines are not processed until resume() is called.
  Conversation(Loop& loop, const Settings& settings, Say say, std::function<bool()> busy = {});
  Conversation(const Conversation&) = delete;
  Conversation& operator=(const Conversation&) = delete;
  ~Conversation();

  void receive(std::string_view bytes);
  /// Processes pending lines.
  void resume();
  /// Number of bytes that wait for resume().
  [[nodiscard]] std::size_t waiting() const { return input_.size() - done_; }

  /// The controller disconnected: ends the session and discards an incomplete line.
  void lost();

  [[nodiscard]] const std::shared_ptr<Session>& session() const { return session_; }

 private:
  void take(std::string_view line);
  void ask(const Received& asked, std::string id, const std::string& what);
  void begin(const Received& asked, std::string id);
  void end();
  void restart_heartbeat();

  Loop* loop_;
  const Settings* settings_;
  Say say_;
  std::function<bool()> busy_;
  std::string input_;
  std::size_t done_ = 0;      ///< number of processed bytes of input_
  std::size_t searched_ = 0;  ///< no line end between done_ and this position
  bool skipping_ = false;     ///< true: discards input until the end of an overlong line
  std::shared_ptr<Session> session_;
  Loop::Watch heartbeat_;
};

}  // namespace rdmawire::agent
