#pragma once
/// What a session holds: verbs objects and others, each with a number.

#include <concepts>
#include <cstdint>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <string_view>
#include <vector>

#include "conformance/agent/error.hpp"

namespace rdmawire::agent {

/// What the agent says: members stay in their order.
using Json = nlohmann::ordered_json;
/// What it was asked. Sorted: a lookup of the other kind takes a step for every member.
using Asked = nlohmann::json;
/// The number of an object: unique within its session, and never used twice in it.
using Handle = std::uint64_t;

/// Something that a session holds and must let go of. A kind of object derives from this and has
/// `static constexpr std::string_view name`, the word that the protocol has for it.
class Object {
 public:
  Object() = default;
  Object(const Object&) = delete;
  Object& operator=(const Object&) = delete;
  virtual ~Object() = default;

  [[nodiscard]] virtual std::string_view kind() const = 0;
  /// Lets go of it. 0, or the errno with which that was refused: then it is still whole, and can be tried again. Not
  /// called again after a 0.
  virtual int release() = 0;
  /// True when release() would not notice that others still use it; then the table refuses with EBUSY.
  [[nodiscard]] virtual bool needs_guard() const { return false; }
  /// What `objects` tells of it besides its number and kind.
  [[nodiscard]] virtual Json about() const { return Json::object(); }

  [[nodiscard]] Handle handle() const { return handle_; }
  /// What it was made from.
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

  /// Takes it in. `uses`: what it was made from; nullptr stands for nothing.
  template <std::derived_from<Object> T>
  T& add(std::unique_ptr<T> object, std::initializer_list<const Object*> uses = {}) {
    T& reference = *object;
    insert(std::move(object), uses);
    return reference;
  }

  /// nullptr when there is none.
  [[nodiscard]] Object* find(Handle handle) const;
  /// The object of that kind. ENOENT: there is none; EINVAL: it is of another kind.
  template <std::derived_from<Object> T>
  [[nodiscard]] Result<T*> get(Handle handle) const {
    Object* object = find(handle);
    if (object == nullptr) return missing(handle);
    auto* wanted = dynamic_cast<T*>(object);
    if (wanted == nullptr) return wrong_kind(*object, T::name);
    return wanted;
  }
  /// The first of a kind that a question is answered yes for; nullptr when there is none.
  template <std::derived_from<Object> T, class Question>
  [[nodiscard]] T* find_if(Question question) const {
    for (const auto& [handle, object] : objects_) {
      auto* candidate = dynamic_cast<T*>(object.get());
      if (candidate != nullptr && question(*candidate)) return candidate;
    }
    return nullptr;
  }

  /// Lets go of one. ENOENT, EBUSY, or what its release said.
  Result<void> destroy(Handle handle);
  /// Lets go of all, newest first, and again as long as that frees any. How many would not go; they are forgotten.
  std::size_t release_all();

  [[nodiscard]] std::size_t size() const { return objects_.size(); }
  [[nodiscard]] bool full() const { return objects_.size() >= most; }
  [[nodiscard]] auto begin() const { return objects_.begin(); }
  [[nodiscard]] auto end() const { return objects_.end(); }

 private:
  void insert(std::unique_ptr<Object> object, std::initializer_list<const Object*> uses);
  [[nodiscard]] bool used(Handle handle) const;
  static tl::unexpected<Error> missing(Handle handle);
  static tl::unexpected<Error> wrong_kind(const Object& object, std::string_view wanted);

  std::map<Handle, std::unique_ptr<Object>> objects_;
  Handle next_ = 1;
};

}  // namespace rdmawire::agent
