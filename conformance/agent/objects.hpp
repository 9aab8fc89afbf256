#pragma once
/// Objects of a session, identified by handles.

#include <concepts>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string_view>
#include <vector>

#include "conformance/agent/error.hpp"

namespace rdmawire::agent {

using rpc::Json;
using rpc::Kind;
using rpc::Received;
/// Handle of an object: unique within its session, never reused.
using Handle = std::uint64_t;

/// An object that the session must release. Derived classes define `static constexpr Kind own_kind`.
class Object {
 public:
  Object() = default;
  Object(const Object&) = delete;
  Object& operator=(const Object&) = delete;
  virtual ~Object() = default;

  [[nodiscard]] virtual Kind kind() const = 0;
  /// Releases the object. Returns 0 or an errno. After an error, the object is unchanged, and the call may be repeated.
  /// Must not be called after it returned 0.
  virtual int release() = 0;
  /// True if release() succeeds even if other objects use this one. Objects::destroy() then checks that, and fails with
  /// EBUSY.
  [[nodiscard]] virtual bool needs_guard() const { return false; }
  /// Members for the `objects` command, in addition to handle and kind.
  [[nodiscard]] virtual Json about() const { return Json::object(); }

  [[nodiscard]] Handle handle() const { return handle_; }
  /// Parent objects.
  [[nodiscard]] const std::vector<Handle>& uses() const { return uses_; }

 private:
  friend class Objects;
  Handle handle_ = 0;
  std::vector<Handle> uses_;
};

class Objects {
 public:
  static constexpr std::size_t most = 100'000;

  Objects() = default;
  Objects(const Objects&) = delete;
  Objects& operator=(const Objects&) = delete;
  ~Objects() { release_all(); }

  /// Adds the object. `uses`: its parent objects. nullptr entries are ignored.
  template <std::derived_from<Object> T>
  T& add(std::unique_ptr<T> object, std::initializer_list<const Object*> uses = {}) {
    T& reference = *object;
    insert(std::move(object), uses);
    return reference;
  }

  /// Returns nullptr if no object has this handle.
  [[nodiscard]] Object* find(Handle handle) const;
  /// Returns the object of kind T. ENOENT: unknown handle. EINVAL: the object has another kind.
  template <std::derived_from<Object> T>
  [[nodiscard]] Result<T*> get(Handle handle) const {
    Object* object = find(handle);
    if (object == nullptr) return missing(handle);
    if (object->kind() != T::own_kind) return wrong_kind(*object, T::own_kind);
    return static_cast<T*>(object);
  }
  /// Checks a handle. ENOENT: unknown handle. EINVAL: the object has another kind. nullopt: it is valid.
  [[nodiscard]] std::optional<Error> check(Kind kind, Handle handle) const;
  /// Returns the object of a handle in a request. The handle must have been checked.
  template <std::derived_from<Object> T>
  [[nodiscard]] T& of(rpc::Handle<T::own_kind> handle) const {
    return static_cast<T&>(*find(handle.number));
  }
  /// The same for an optional handle. Returns nullptr if it is absent.
  template <std::derived_from<Object> T>
  [[nodiscard]] T* of(const std::optional<rpc::Handle<T::own_kind>>& handle) const {
    return handle ? &of<T>(*handle) : nullptr;
  }
  /// Returns the oldest object of kind T that satisfies the predicate. nullptr: there is none.
  template <std::derived_from<Object> T, class Question>
  [[nodiscard]] T* find_if(Question question) const {
    for (const auto& [handle, object] : objects_) {
      if (object->kind() != T::own_kind) continue;
      auto* candidate = static_cast<T*>(object.get());
      if (question(*candidate)) return candidate;
    }
    return nullptr;
  }

  /// Releases one object. Errors: ENOENT, EBUSY, or the error of its release().
  Result<void> destroy(Handle handle);
  /// Releases all objects, newest first. Repeats this as long as a pass releases an object. Then drops the objects that
  /// could not be released, and returns their number.
  std::size_t release_all();

  [[nodiscard]] std::size_t size() const { return objects_.size(); }
  [[nodiscard]] bool full() const { return objects_.size() >= most; }
  [[nodiscard]] auto begin() const { return objects_.begin(); }
  [[nodiscard]] auto end() const { return objects_.end(); }

 private:
  void insert(std::unique_ptr<Object> object, std::initializer_list<const Object*> uses);
  [[nodiscard]] bool used(Handle handle) const;
  static tl::unexpected<Error> missing(Handle handle);
  static tl::unexpected<Error> wrong_kind(const Object& object, Kind wanted);

  std::map<Handle, std::unique_ptr<Object>> objects_;
  Handle next_ = 1;
};

}  // namespace rdmawire::agent
