#include "replay/peer/handle.hpp"

#include "replay/peer/handle_state.hpp"

namespace rdmawire::peer {

using nlohmann::json;

std::uint64_t Handle::handle() const { return object_ ? object_->number() : 0; }

PeerResult<void> Handle::release() {
  if (!object_) return empty_handle("destroy");
  auto released = object_->release();
  if (released) object_.reset();
  return released;
}

std::shared_ptr<Handle::Object> Handle::adopt(const std::shared_ptr<Session>& session, std::uint64_t handle,
                                              std::vector<std::shared_ptr<Object>> uses) {
  return std::make_shared<Object>(session, handle, std::move(uses));
}

PeerResult<json> Handle::call(std::string_view command, const json& arguments) const {
  if (!object_) return empty_handle(command);
  return object_->session()->call(command, arguments);
}

std::shared_ptr<Session> Handle::session() const { return object_ ? object_->session() : nullptr; }

}  // namespace rdmawire::peer
