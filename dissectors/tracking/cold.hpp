#pragma once
/// Rare state: only few objects need it.

#include <cstddef>
#include <memory>

namespace rdmawire::tracking {

/// A value that is allocated when it is first changed. Before that, it has its default value and only needs the memory
/// of a pointer.
template <class T>
class Cold {
 public:
  Cold() = default;
  Cold(const Cold& other) : value_(other.value_ ? std::make_unique<T>(*other.value_) : nullptr) {}
  Cold(Cold&&) noexcept = default;
  Cold& operator=(const Cold& other) {
    if (this != &other) *this = Cold(other);
    return *this;
  }
  Cold& operator=(Cold&&) noexcept = default;
  ~Cold() = default;

  const T* operator->() const { return value_ ? value_.get() : &unchanged; }
  const T& operator*() const { return *operator->(); }
  /// Returns the value for changes. Allocates it if necessary.
  T& edit() {
    if (!value_) value_ = std::make_unique<T>();
    return *value_;
  }
  /// Memory of the allocated value, in bytes. Does not include the object itself.
  [[nodiscard]] std::size_t bytes() const { return value_ ? sizeof(T) : 0; }

 private:
  static const T unchanged;
  std::unique_ptr<T> value_;
};

template <class T>
const T Cold<T>::unchanged{};

}  // namespace rdmawire::tracking
