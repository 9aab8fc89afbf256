#pragma once
/// A queue that grows by doubling and keeps its memory. Items are added at the back, removed at the front, and accessed
/// by index.

#include <cstddef>
#include <memory>
#include <utility>

namespace rdmawire::tracking {

/// `T` is copied and moved by assignment. The first push allocates memory.
template <class T>
class Ring {
 public:
  Ring() = default;
  Ring(Ring&& other) noexcept { swap(other); }
  Ring& operator=(Ring&& other) noexcept {
    Ring taken(std::move(other));
    swap(taken);
    return *this;
  }
  void swap(Ring& other) noexcept {
    items_.swap(other.items_);
    std::swap(capacity_, other.capacity_);
    std::swap(first_, other.first_);
    std::swap(size_, other.size_);
  }

  [[nodiscard]] std::size_t size() const { return size_; }
  [[nodiscard]] bool empty() const { return size_ == 0; }
  [[nodiscard]] std::size_t bytes() const { return capacity_ * sizeof(T); }

  [[nodiscard]] T& operator[](std::size_t i) { return items_[(first_ + i) & (capacity_ - 1)]; }
  [[nodiscard]] const T& operator[](std::size_t i) const { return items_[(first_ + i) & (capacity_ - 1)]; }
  [[nodiscard]] T& front() { return (*this)[0]; }
  [[nodiscard]] T& back() { return (*this)[size_ - 1]; }
  [[nodiscard]] const T& back() const { return (*this)[size_ - 1]; }

  /// Returns the address of item `i` or of its future slot, or nullptr if it is not allocated. Used for prefetching:
  /// items from size() on must not be read.
  [[nodiscard]] const T* place(std::size_t i) const {
    return capacity_ ? &items_[(first_ + i) & (capacity_ - 1)] : nullptr;
  }

  T& push_back(const T& item) {
    if (size_ == capacity_) {
      const T copy = item;  // copied, because `item` may be an element of this ring
      grow();
      ++size_;
      return back() = copy;
    }
    ++size_;
    return back() = item;
  }
  void pop_front() {
    first_ = (first_ + 1) & (capacity_ - 1);
    --size_;
  }
  /// Inserts `item` before item `at`. The order of the other items does not change.
  void insert(std::size_t at, T item) {
    if (size_ == capacity_) grow();
    ++size_;
    if (at < size_ / 2) {
      // Moves the side that has fewer items.
      first_ = (first_ - 1) & (capacity_ - 1);
      for (std::size_t i = 0; i < at; ++i) (*this)[i] = std::move((*this)[i + 1]);
    } else {
      for (std::size_t i = size_ - 1; i > at; --i) (*this)[i] = std::move((*this)[i - 1]);
    }
    (*this)[at] = std::move(item);
  }
  void erase(std::size_t at) {
    for (std::size_t i = at; i + 1 < size_; ++i) (*this)[i] = std::move((*this)[i + 1]);
    --size_;
  }
  void clear() { first_ = size_ = 0; }

 private:
  void grow() {
    // Many rings of large items never contain more than one item.
    constexpr std::size_t first = sizeof(T) > 128 ? 1 : 4;
    const std::size_t capacity = capacity_ ? capacity_ * 2 : first;
    auto items = std::make_unique<T[]>(capacity);
    for (std::size_t i = 0; i < size_; ++i) items[i] = std::move((*this)[i]);
    items_ = std::move(items);
    capacity_ = capacity;
    first_ = 0;
  }

  std::unique_ptr<T[]> items_;
  std::size_t capacity_ = 0, first_ = 0, size_ = 0;
};

}  // namespace rdmawire::tracking
