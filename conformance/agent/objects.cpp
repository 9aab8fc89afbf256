#include "conformance/agent/objects.hpp"

#include <algorithm>
#include <iterator>

namespace rdmawire::agent {
namespace {

std::string_view article(std::string_view word) {
  // Indefinite article by pronunciation: an AH, an MR, an MW, an SRQ, an XRCD.
  return word == "ah" || word == "mr" || word == "mw" || word == "srq" || word == "xrcd" ? "an" : "a";
}

}  // namespace

tl::unexpected<Error> Objects::missing(Handle handle) { return fail(ENOENT, "no object {}", handle); }

tl::unexpected<Error> Objects::wrong_kind(const Object& object, Kind wanted) {
  const std::string_view kind = name_of(object.kind()), expected = name_of(wanted);
  return fail(EINVAL, "handle {} is {} {}, not {} {}", object.handle(), article(kind), kind, article(expected),
              expected);
}

std::optional<Error> Objects::check(Kind kind, Handle handle) const {
  // Commands that accept any kind check the handle themselves.
  if (kind == Kind::any) return std::nullopt;
  const Object* object = find(handle);
  if (object == nullptr) return missing(handle).value();
  if (object->kind() != kind) return wrong_kind(*object, kind).value();
  return std::nullopt;
}

void Objects::insert(std::unique_ptr<Object> object, std::initializer_list<const Object*> uses) {
  object->handle_ = next_++;
  for (const Object* other : uses) {
    if (other != nullptr) object->uses_.push_back(other->handle());
  }
  objects_.emplace_hint(objects_.end(), object->handle_, std::move(object));
}

Object* Objects::find(Handle handle) const {
  const auto found = objects_.find(handle);
  return found == objects_.end() ? nullptr : found->second.get();
}

bool Objects::used(Handle handle) const {
  // An object is newer than the objects it uses, so only objects with larger handles can use this one.
  return std::any_of(objects_.upper_bound(handle), objects_.end(), [&](const auto& entry) {
    const auto& uses = entry.second->uses();
    return std::find(uses.begin(), uses.end(), handle) != uses.end();
  });
}

Result<void> Objects::destroy(Handle handle) {
  const auto found = objects_.find(handle);
  if (found == objects_.end()) return missing(handle);
  Object& object = *found->second;
  if (object.needs_guard() && used(handle)) {
    return fail(EBUSY, "{} {} is still in use; destroy the objects that use it first", name_of(object.kind()), handle);
  }
  if (const int number = object.release(); number != 0) {
    return fail(number, "{} {} was not released: {}", name_of(object.kind()), handle, errno_text(number));
  }
  objects_.erase(found);
  return {};
}

std::size_t Objects::release_all() {
  // An object in use cannot be released. Repeat, because the previous pass may have released its users.
  for (bool progress = true; progress && !objects_.empty();) {
    progress = false;
    for (auto at = objects_.end(); at != objects_.begin();) {
      --at;
      Object& object = *at->second;
      if ((object.needs_guard() && used(object.handle())) || object.release() != 0) continue;
      at = objects_.erase(at);
      progress = true;
    }
  }
  const std::size_t left = objects_.size();
  // Drop the remaining objects. Their memory stays mapped, because the device may still access it.
  for (auto& [handle, object] : objects_) static_cast<void>(object.release());
  objects_.clear();
  return left;
}

}  // namespace rdmawire::agent
