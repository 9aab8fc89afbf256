#pragma once
/// A table of packets by PSN. It keeps the latest PSNs.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

namespace rdmawire::tracking {

/// Keeps entries of the latest `capacity` PSNs (a power of two). Memory grows with the range of PSNs that were added,
/// because a capture can contain many QPs with few packets each. `Entry` must have the members `psn` and `known`.
template <class Entry, std::size_t capacity>
class PsnWindow {
  static_assert((capacity & (capacity - 1)) == 0);

 public:
  /// Returns the entry of a PSN, or nullptr.
  [[nodiscard]] Entry* find(std::uint32_t psn) { return const_cast<Entry*>(std::as_const(*this).find(psn)); }
  [[nodiscard]] const Entry* find(std::uint32_t psn) const {
    if (entries_.empty()) return nullptr;
    const Entry& one = entries_[psn % entries_.size()];
    return one.known && one.psn == psn ? &one : nullptr;
  }
  /// Adds an entry, or replaces that of the same PSN. Drops the entry whose PSN differs by a multiple of `capacity`.
  /// Invalidates pointers to entries.
  void add(const Entry& entry) {
    if (entries_.empty()) entries_.resize(1);
    while (entries_.size() < capacity) {
      const Entry& there = entries_[entry.psn % entries_.size()];
      if (!there.known || there.psn == entry.psn) break;
      grow();
    }
    entries_[entry.psn % entries_.size()] = entry;
  }
  void clear() { entries_ = {}; }
  /// Number of entries for which memory is allocated.
  [[nodiscard]] std::size_t allocated() const { return entries_.size(); }

 private:
  // Entries keep distinct slots: PSNs that differ modulo the old size also differ modulo the new size.
  void grow() {
    std::vector<Entry> larger(2 * entries_.size());
    for (Entry& one : entries_)
      if (one.known) larger[one.psn % larger.size()] = std::move(one);
    entries_ = std::move(larger);
  }

  std::vector<Entry> entries_;
};

}  // namespace rdmawire::tracking
