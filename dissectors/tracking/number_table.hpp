#pragma once
/// Small hash tables for millions of entries. Each is one array, without an allocation per entry.

#include <cstddef>
#include <cstdint>
#include <vector>

namespace rdmawire::tracking {

/// Hash table of values by 64-bit key. Several entries can have the same key. The low bits of keys must be well mixed.
/// The table grows when it is 3/4 full.
class NumberTable {
 public:
  using Value = std::uint32_t;
  static constexpr Value none = UINT32_MAX;  ///< cannot be used as a value
  /// Average memory per entry in bytes, including unused slots.
  static constexpr std::size_t entry_bytes = 32;

  [[nodiscard]] std::size_t size() const { return size_; }
  [[nodiscard]] std::size_t memory() const { return slots_.capacity() * sizeof(Slot); }

  /// Adds an entry, even if other entries have the same key.
  void insert(std::uint64_t key, Value value) {
    if ((size_ + 1) * 4 > slots_.size() * 3) grow();
    place(slots_, key, value);
    ++size_;
  }
  /// Returns the value of the first entry with this key for which `accepts(value)` is true, or nullptr. The result is
  /// valid until the table changes.
  template <class Accepts>
  [[nodiscard]] Value* find(std::uint64_t key, Accepts accepts) {
    const std::size_t at = locate(key, accepts);
    return at == absent ? nullptr : &slots_[at].value;
  }
  [[nodiscard]] Value* find(std::uint64_t key) {
    return find(key, [](Value) { return true; });
  }
  [[nodiscard]] bool contains(std::uint64_t key) const {
    return locate(key, [](Value) { return true; }) != absent;
  }
  /// Returns whether the tables have a key in common.
  [[nodiscard]] bool intersects(const NumberTable& other) const {
    for (const Slot& slot : slots_)
      if (slot.value != none && other.contains(slot.key)) return true;
    return false;
  }
  /// Returns the number of entries with this key, but at most `most`.
  [[nodiscard]] std::size_t count(std::uint64_t key, std::size_t most) const {
    std::size_t found = 0;
    if (most != 0) static_cast<void>(locate(key, [&](Value) { return ++found == most; }));
    return found;
  }
  /// Calls `visit(value)` for at most `most` entries with this key. `visit` must not change the table.
  template <class Visit>
  void each(std::uint64_t key, std::size_t most, Visit visit) const {
    std::size_t left = most;
    static_cast<void>(locate(key, [&](Value value) {
      if (left == 0) return true;
      visit(value);
      return --left == 0;
    }));
  }
  /// Removes the first entry with this key for which `accepts(value)` is true.
  template <class Accepts>
  bool erase(std::uint64_t key, Accepts accepts) {
    std::size_t hole = locate(key, accepts);
    if (hole == absent) return false;
    const std::size_t mask = slots_.size() - 1;
    // Moves later entries of the probe sequence back into the hole if otherwise they would be unreachable from their
    // home slot.
    for (std::size_t i = (hole + 1) & mask; slots_[i].value != none; i = (i + 1) & mask) {
      const std::size_t home = slots_[i].key & mask;
      if (((i - home) & mask) >= ((i - hole) & mask)) {
        slots_[hole] = slots_[i];
        hole = i;
      }
    }
    slots_[hole] = {};
    --size_;
    return true;
  }

 private:
  struct Slot {
    std::uint64_t key = 0;
    Value value = none;
  };
  static constexpr std::size_t absent = SIZE_MAX;

  template <class Accepts>
  [[nodiscard]] std::size_t locate(std::uint64_t key, Accepts accepts) const {
    if (slots_.empty()) return absent;
    const std::size_t mask = slots_.size() - 1;
    for (std::size_t i = key & mask; slots_[i].value != none; i = (i + 1) & mask)
      if (slots_[i].key == key && accepts(slots_[i].value)) return i;
    return absent;
  }
  static void place(std::vector<Slot>& slots, std::uint64_t key, Value value) {
    const std::size_t mask = slots.size() - 1;
    std::size_t i = key & mask;
    while (slots[i].value != none) i = (i + 1) & mask;
    slots[i] = {key, value};
  }
  void grow() {
    std::vector<Slot> larger(slots_.empty() ? 16 : slots_.size() * 2);
    for (const Slot& slot : slots_)
      if (slot.value != none) place(larger, slot.key, slot.value);
    slots_.swap(larger);
  }

  std::vector<Slot> slots_;
  std::size_t size_ = 0;
};

}  // namespace rdmawire::tracking
