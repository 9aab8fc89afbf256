#pragma once
/// Internal: the object of a Handle, and requests.

#include <fmt/format.h>

#include <optional>
#include <string>

#include "replay/peer/handle.hpp"
#include "replay/peer/session_state.hpp"
#include "replay/rpc/session_commands.hpp"

namespace rdmawire::peer {

class Handle::Object {
 public:
  Object(std::shared_ptr<Session> session, std::uint64_t number, std::vector<std::shared_ptr<Object>> uses)
      : session_(std::move(session)), number_(number), uses_(std::move(uses)) {}
  Object(const Object&) = delete;
  Object& operator=(const Object&) = delete;
  ~Object() {
    if (!gone_) session_->release(rpc::Destroy::command().name, rpc::arguments_of(rpc::Destroy{{number_}}));
  }

  [[nodiscard]] const std::shared_ptr<Session>& session() const { return session_; }
  [[nodiscard]] std::uint64_t number() const { return number_; }
  PeerResult<void> release() {
    const auto released = session_->call(rpc::Destroy::command().name, rpc::arguments_of(rpc::Destroy{{number_}}));
    if (!released) return tl::unexpected(released.error());
    gone_ = true;
    return {};
  }

 private:
  std::shared_ptr<Session> session_;
  std::uint64_t number_;
  std::vector<std::shared_ptr<Object>> uses_;
  bool gone_ = false;
};

/// Error for a response that violates the protocol.
inline tl::unexpected<PeerError> unreadable(std::string_view command, std::string_view what) {
  return tl::unexpected(peer_error(PeerError::Kind::lost, EPROTO,
                                   fmt::format("{}: the agent's response has no valid {}", command, what)));
}

inline tl::unexpected<PeerError> empty_handle(std::string_view command) {
  return tl::unexpected(
      peer_error(PeerError::Kind::usage, EBADF, fmt::format("{}: empty handle (moved from or released)", command)));
}

/// Sends a request and reads its result.
template <class Message>
PeerResult<typename Message::Result> request(Session& session, const Message& message,
                                             std::optional<Deadline> deadline = {}) {
  const std::string_view name = Message::command().name;
  const nlohmann::json arguments = rpc::arguments_of(message);
  const auto answer = session.call(name, arguments, deadline.value_or(session.options().timeout));
  if (!answer) return tl::unexpected(answer.error());
  auto result = rpc::read_result<Message>(*answer);
  if (!result) return unreadable(name, '"' + result.error() + '"');
  return std::move(*result);
}

template <class Message>
PeerResult<typename Message::Result> Handle::request(const Message& message, std::optional<Deadline> deadline) const {
  if (!object_) return empty_handle(Message::command().name);
  return peer::request(*object_->session(), message, deadline);
}

/// A result of which only the success counts.
template <class T>
PeerResult<void> done(const PeerResult<T>& result) {
  if (!result) return tl::unexpected(result.error());
  return {};
}

}  // namespace rdmawire::peer
