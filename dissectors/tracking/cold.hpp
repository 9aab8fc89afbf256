#pragma once
/// State that few objects need.

#include <cstddef>
#include <memory>

namespace rdmawire::tracking {

/// A value that is allocated when it is changed for the first time. Until then it has its default value, and needs the
/// memory of a pointer.
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
  /// For changes: allocates the value.
  T& edit() {
    if (!value_) value_ = std::make_unique<T>();
    return *value_;
  }
  /// Memory in addition to the object itself, in bytes.
  [[nodiscard]] std::size_t bytes() const { return value_ ? sizeof(T) : 0; }

 private:
  static const T unchanged;
  std::unique_ptr<T> value_;
};

template <class T>
const T Cold<T>::unchanged{};

}  // namespace rdmawire::tracking
