#pragma once
/// Owning C++ handle of an object in an agent.

#include <cstdint>
#include <initializer_list>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string_view>
#include <vector>

#include "replay/peer/peer.hpp"

namespace rdmawire::peer {

/// An object of a session. It keeps its parent objects alive, so that handles may be destroyed in any order: a QP is
/// always released before its protection domain. Destruction does not wait for the response. Errors are collected in
/// Peer::unattended(). The end of the session releases all objects.
///
/// All functions of a moved-from or released handle return Kind::usage.
class Handle {
 public:
  Handle() = default;
  Handle(Handle&&) noexcept = default;
  Handle& operator=(Handle&&) noexcept = default;
  Handle(const Handle&) = delete;
  Handle& operator=(const Handle&) = delete;
  ~Handle() = default;

  [[nodiscard]] explicit operator bool() const { return object_ != nullptr; }
  /// The agent's handle, for Peer::call(). 0: none.
  [[nodiscard]] std::uint64_t handle() const;
  /// Releases the object and waits for the response. If it is still in use (EBUSY), the handle stays valid.
  PeerResult<void> release();

 protected:
  class Object;
  explicit Handle(std::shared_ptr<Object> object) : object_(std::move(object)) {}

  /// Takes ownership of a new object of the agent.
  static std::shared_ptr<Object> adopt(const std::shared_ptr<Session>& session, std::uint64_t handle,
                                       std::vector<std::shared_ptr<Object>> uses);
  /// Sends a request of the agent protocol (replay/rpc) that contains this handle.
  template <class Message>
  PeerResult<typename Message::Result> request(const Message& message, std::optional<Deadline> deadline = {}) const;
  /// Same, with arguments as JSON.
  PeerResult<nlohmann::json> call(std::string_view command, const nlohmann::json& arguments) const;
  [[nodiscard]] std::shared_ptr<Session> session() const;

  /// The object of another handle, for objects with several parents.
  [[nodiscard]] static std::shared_ptr<Object> object_of(const Handle& other) { return other.object_; }

 private:
  std::shared_ptr<Object> object_;
};

}  // namespace rdmawire::peer
