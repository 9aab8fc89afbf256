#pragma once
/// The protocol on one channel: lines in, lines out, at most one session at a time.

#include <deque>
#include <memory>
#include <string>
#include <string_view>

#include "conformance/agent/session.hpp"

namespace rdmawire::agent {

inline constexpr std::uint32_t protocol_version = 1;
inline constexpr std::size_t most_line = 4U << 20U;
/// Of a line, as long as the controller has not authenticated itself.
inline constexpr std::size_t most_strange_line = 4096;

/// Knows nothing of sockets: bytes come in by receive(), lines go out by what it was given.
class Conversation {
 public:
  /// `say` may be called at any time until the conversation is gone; it does not call back. `busy` asks whether lines
  /// should wait for now: then resume() goes on.
  Conversation(Loop& loop, const Settings& settings, Say say, std::function<bool()> busy = {});
  Conversation(const Conversation&) = delete;
  Conversation& operator=(const Conversation&) = delete;
  ~Conversation();

  void receive(std::string_view bytes);
  /// Does what arrived and could not be done yet.
  void resume();
  /// Bytes that wait for resume().
  [[nodiscard]] std::size_t waiting() const { return input_.size() - done_; }

  /// The controller went away: its session ends, and a line that had begun is forgotten.
  void lost();

  /// Whether a controller is let in.
  [[nodiscard]] bool authenticated() const { return session_ && session_->challenge.empty(); }
  [[nodiscard]] const std::shared_ptr<Session>& session() const { return session_; }

 private:
  void take(std::string_view line);
  void ask(const Asked& asked, std::string id, const std::string& what);
  void begin(const Asked& asked, std::string id);
  void end();
  void restart_heartbeat();

  Loop* loop_;
  const Settings* settings_;
  Say say_;
  std::function<bool()> busy_;
  std::string input_;
  std::size_t done_ = 0;      ///< bytes of it that lines were taken from
  std::size_t searched_ = 0;  ///< bytes of it without the end of a line
  bool skipping_ = false;     ///< to the end of a line that is too long
  std::shared_ptr<Session> session_;
  Loop::Watch heartbeat_;
};

}  // namespace rdmawire::agent
