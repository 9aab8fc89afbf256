#pragma once
/// A small table with a fixed number of slots, which needs memory only for the used ones.

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace rdmawire::conformance {

/// 64 slots.
template <class T>
class SparseSlots {
 public:
  static constexpr std::size_t slots = 64;

  /// Returns the item of a slot, or nullptr if it is unused.
  [[nodiscard]] const T* find(std::size_t slot) const {
    return (used_ >> slot & 1) != 0 ? &items_[place_of(slot)] : nullptr;
  }
  void set(std::size_t slot, const T& item) {
    const std::size_t place = place_of(slot);
    if ((used_ >> slot & 1) != 0) {
      items_[place] = item;
      return;
    }
    if (items_.size() == items_.capacity()) items_.reserve(items_.size() + step);
    items_.insert(items_.begin() + static_cast<std::ptrdiff_t>(place), item);
    used_ |= std::uint64_t{1} << slot;
  }
  /// Memory in addition to the object itself, in bytes.
  [[nodiscard]] std::size_t bytes() const { return items_.capacity() * sizeof(T); }

 private:
  static constexpr std::size_t step = 8;

  // If all slots are used, each item is at its slot.
  [[nodiscard]] std::size_t place_of(std::size_t slot) const {
    if (items_.size() == slots) return slot;
    return static_cast<std::size_t>(std::popcount(used_ & ((std::uint64_t{1} << slot) - 1)));
  }

  std::uint64_t used_ = 0;
  std::vector<T> items_;  // by slot
};

}  // namespace rdmawire::conformance
