#include "replay/peer/handle.hpp"

#include "replay/peer/handle_state.hpp"

namespace rdmawire::peer {

using nlohmann::json;

namespace {

tl::unexpected<PeerError> nobody(std::string_view command) {
  return tl::unexpected(
      peer_error(PeerError::Kind::usage, EBADF, fmt::format("{}: empty handle (moved from or released)", command)));
}

}  // namespace

std::uint64_t Handle::handle() const { return object_ ? object_->number() : 0; }

PeerResult<void> Handle::release() {
  if (!object_) return nobody("destroy");
  auto released = object_->release();
  if (released) object_.reset();
  return released;
}

PeerResult<std::shared_ptr<Handle::Object>> Handle::take_in(const std::shared_ptr<Session>& session,
                                                            std::string_view command, const json& result,
                                                            const char* key,
                                                            std::vector<std::shared_ptr<Object>> uses) {
  Reader reader(result);
  const auto number = reader.number<std::uint64_t>(key);
  if (reader.wrong()) return unreadable(command, *reader.wrong());
  return std::make_shared<Object>(session, number, std::move(uses));
}

PeerResult<json> Handle::ask(std::string_view command, const char* key, json arguments) const {
  if (!object_) return nobody(command);
  return ask(command, key, std::move(arguments), object_->session()->options().timeout);
}

PeerResult<json> Handle::ask(std::string_view command, const char* key, json arguments, Deadline deadline) const {
  if (!object_) return nobody(command);
  if (arguments.is_null()) arguments = json::object();
  arguments[key] = object_->number();
  return object_->session()->call(command, arguments, deadline);
}

std::shared_ptr<Session> Handle::session() const { return object_ ? object_->session() : nullptr; }

}  // namespace rdmawire::peer
