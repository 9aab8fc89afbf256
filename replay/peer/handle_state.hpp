#pragma once
/// Internal: the object of a Handle, and parsing of results.

#include <fmt/format.h>

#include <optional>
#include <string>

#include "replay/peer/handle.hpp"
#include "replay/peer/session_state.hpp"

namespace rdmawire::peer {

class Handle::Object {
 public:
  Object(std::shared_ptr<Session> session, std::uint64_t number, std::vector<std::shared_ptr<Object>> uses)
      : session_(std::move(session)), number_(number), uses_(std::move(uses)) {}
  Object(const Object&) = delete;
  Object& operator=(const Object&) = delete;
  ~Object() {
    if (!gone_) session_->release("destroy", {{"object", number_}});
  }

  [[nodiscard]] const std::shared_ptr<Session>& session() const { return session_; }
  [[nodiscard]] std::uint64_t number() const { return number_; }
  PeerResult<void> release() {
    const auto released = session_->call("destroy", {{"object", number_}});
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

/// For commands whose result contains nothing that the caller needs.
inline PeerResult<void> done(const PeerResult<nlohmann::json>& result) {
  if (!result) return tl::unexpected(result.error());
  return {};
}

/// Reads members of a result, and checks their types. The first missing or mistyped member is remembered.
class Reader {
 public:
  explicit Reader(const nlohmann::json& object) : object_(&object) {}

  template <class T>
  T number(const char* name) {
    const auto found = find(name);
    if (found == nullptr || !found->is_number_integer()) return missing<T>(name);
    // Negative numbers keep their 64-bit representation.
    return static_cast<T>(found->is_number_unsigned() ? found->get<std::uint64_t>()
                                                      : static_cast<std::uint64_t>(found->get<std::int64_t>()));
  }
  template <class T>
  std::optional<T> maybe_number(const char* name) {
    const auto found = find(name);
    return found == nullptr || found->is_null() ? std::nullopt : std::optional<T>(number<T>(name));
  }
  std::string text(const char* name) {
    const auto found = find(name);
    if (found == nullptr || !found->is_string()) return missing<std::string>(name);
    return found->get<std::string>();
  }
  std::string text_or(const char* name, std::string fallback) {
    const auto found = find(name);
    return found == nullptr || found->is_null() ? std::move(fallback) : text(name);
  }
  std::vector<std::string> texts(const char* name) {
    const auto found = find(name);
    std::vector<std::string> list;
    if (found == nullptr || !found->is_array()) return missing<std::vector<std::string>>(name);
    for (const auto& entry : *found) {
      if (!entry.is_string()) return missing<std::vector<std::string>>(name);
      list.push_back(entry.get<std::string>());
    }
    return list;
  }
  std::vector<std::uint8_t> bytes(const char* name) {
    const auto read = from_hex(text(name));
    if (!read) return missing<std::vector<std::uint8_t>>(name);
    return {read->begin(), read->end()};
  }
  const nlohmann::json& list(const char* name) {
    static const nlohmann::json none = nlohmann::json::array();
    const auto found = find(name);
    if (found != nullptr && found->is_array()) return *found;
    missing<int>(name);
    return none;
  }

  /// The first missing or mistyped member.
  [[nodiscard]] const std::optional<std::string>& wrong() const { return wrong_; }

 private:
  const nlohmann::json* find(const char* name) const {
    if (!object_->is_object()) return nullptr;
    const auto found = object_->find(name);
    return found == object_->end() ? nullptr : &*found;
  }
  template <class T>
  T missing(const char* name) {
    if (!wrong_) wrong_ = std::string("\"") + name + "\"";
    return T();
  }

  const nlohmann::json* object_;
  std::optional<std::string> wrong_;
};

}  // namespace rdmawire::peer
