#pragma once
/// What an agent made for us, as a C++ object: when it goes, the agent lets go of it, too.

#include <cstdint>
#include <initializer_list>
#include <memory>
#include <nlohmann/json.hpp>
#include <string_view>
#include <vector>

#include "replay/peer/peer.hpp"

namespace rdmawire::peer {

/// An object of a session. It holds what it was made from, so that whatever the order in which handles go out of scope,
/// the agent is asked in the right one: a queue pair before its protection domain. Nobody waits for the answers; what
/// they complain of is in Peer::unattended(). After the session everything is released already.
///
/// Every function of a handle that was moved away or released gives Kind::usage.
class Handle {
 public:
  Handle() = default;
  Handle(Handle&&) noexcept = default;
  Handle& operator=(Handle&&) noexcept = default;
  Handle(const Handle&) = delete;
  Handle& operator=(const Handle&) = delete;
  ~Handle() = default;

  [[nodiscard]] explicit operator bool() const { return object_ != nullptr; }
  /// The number that the agent gave it, for Peer::call(); 0: none.
  [[nodiscard]] std::uint64_t handle() const;
  /// Lets go of it now, and waits for the answer. Refused (EBUSY: others still use it), it stays.
  PeerResult<void> release();

 protected:
  class Object;
  explicit Handle(std::shared_ptr<Object> object) : object_(std::move(object)) {}

  /// Takes an object in that a result names under `key`: {"pd": 2}.
  static PeerResult<std::shared_ptr<Object>> take_in(const std::shared_ptr<Session>& session, std::string_view command,
                                                     const nlohmann::json& result, const char* key,
                                                     std::vector<std::shared_ptr<Object>> uses);
  /// Asks about this object, which the command calls `key`.
  PeerResult<nlohmann::json> ask(std::string_view command, const char* key, nlohmann::json arguments = nullptr) const;
  PeerResult<nlohmann::json> ask(std::string_view command, const char* key, nlohmann::json arguments,
                                 Deadline deadline) const;
  [[nodiscard]] std::shared_ptr<Session> session() const;

  /// Of another handle, for what is made from both.
  [[nodiscard]] static std::shared_ptr<Object> object_of(const Handle& other) { return other.object_; }

 private:
  std::shared_ptr<Object> object_;
};

}  // namespace rdmawire::peer
