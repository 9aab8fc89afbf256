#pragma once
/// Tables with a bound, which count what did not find room.

#include <algorithm>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "dissectors/tracking/fetch.hpp"

namespace rdmawire::captures::analysis {

/// What archive.cpp saves and loads these by.
struct Archived;

/// Rows by key; never removes any. `Key` needs == and `hash()`, 64 bits of which the low ones are well mixed.
template <class Key, class Row>
class BoundedTable {
 public:
  explicit BoundedTable(std::uint32_t capacity) : capacity_(capacity) {}

  /// The row of `key`, a new one when there was none; nullptr, counted, when there is no room. Valid until the next
  /// call.
  Row* at(const Key& key) {
    if (rows_.size() * 2 >= slots_.size()) grow();
    for (std::size_t i = key.hash() & (slots_.size() - 1);; i = (i + 1) & (slots_.size() - 1)) {
      if (slots_[i] == none) {
        if (rows_.size() == capacity_) {
          ++overflow_;
          return nullptr;
        }
        slots_[i] = static_cast<std::uint32_t>(rows_.size());
        rows_.emplace_back(key, Row{});
        return &rows_.back().second;
      }
      if (rows_[slots_[i]].first == key) return &rows_[slots_[i]].second;
    }
  }
  [[nodiscard]] Row* find(const Key& key) {
    const auto row = find_index(key);
    return row ? &rows_[*row].second : nullptr;
  }
  /// The place of `key` among rows(), nullopt when it has none. Places do not change.
  [[nodiscard]] std::optional<std::uint32_t> find_index(const Key& key) const {
    if (slots_.empty()) return std::nullopt;
    for (std::size_t i = key.hash() & (slots_.size() - 1); slots_[i] != none; i = (i + 1) & (slots_.size() - 1))
      if (rows_[slots_[i]].first == key) return slots_[i];
    return std::nullopt;
  }
  /// Brings the memory that at() will need into the cache: first the slot, some packets later the row.
  void fetch_slot(const Key& key) const {
    if (!slots_.empty()) tracking::fetch(&slots_[key.hash() & (slots_.size() - 1)]);
  }
  void fetch_row(const Key& key) const {
    if (slots_.empty()) return;
    const std::uint32_t row = slots_[key.hash() & (slots_.size() - 1)];
    if (row != none) tracking::fetch(&rows_[row]);
  }
  /// In the order in which they came.
  [[nodiscard]] const std::vector<std::pair<Key, Row>>& rows() const { return rows_; }
  /// Calls of at() that found no room.
  [[nodiscard]] std::uint64_t overflow() const { return overflow_; }

  /// Row needs `merge(const Row&)`.
  void merge(const BoundedTable& other) {
    for (const auto& [key, row] : other.rows_)
      if (Row* mine = at(key)) mine->merge(row);
    overflow_ += other.overflow_;
  }

 private:
  friend struct Archived;
  static constexpr std::uint32_t none = UINT32_MAX;
  void grow() {
    slots_.assign(slots_.empty() ? 64 : slots_.size() * 2, none);
    for (std::uint32_t row = 0; row < rows_.size(); ++row) {
      std::size_t i = rows_[row].first.hash() & (slots_.size() - 1);
      while (slots_[i] != none) i = (i + 1) & (slots_.size() - 1);
      slots_[i] = row;
    }
  }

  std::uint32_t capacity_;
  std::uint64_t overflow_ = 0;
  std::vector<std::uint32_t> slots_;
  std::vector<std::pair<Key, Row>> rows_;
};

/// A number that is its own key.
struct MixedNumber {
  std::uint64_t value = 0;
  friend bool operator==(const MixedNumber&, const MixedNumber&) = default;
  [[nodiscard]] std::uint64_t hash() const {
    std::uint64_t h = value * 0x9e3779b97f4a7c15;
    h = (h ^ h >> 32) * 0xbf58476d1ce4e5b9;
    return h ^ h >> 29;
  }
};

/// Distinct numbers, counted by who sees whether one is new.
class BoundedSet {
 public:
  explicit BoundedSet(std::uint32_t capacity) : table_(capacity) {}
  /// True when it was not there; false, counted, when there is no room.
  bool insert(std::uint64_t value) {
    const std::size_t before = table_.rows().size();
    static_cast<void>(table_.at({value}));
    return table_.rows().size() != before;
  }
  void merge(const BoundedSet& other) { table_.merge(other.table_); }
  template <class Take>
  void each(Take take) const {
    for (const auto& [key, row] : table_.rows()) take(key.value);
  }
  [[nodiscard]] std::size_t size() const { return table_.rows().size(); }
  [[nodiscard]] std::uint64_t overflow() const { return table_.overflow(); }

 private:
  friend struct Archived;
  struct Nothing {
    void merge(const Nothing& /*other*/) {}
  };
  BoundedTable<MixedNumber, Nothing> table_;
};

/// The first `capacity` of all items in the order `Less`, whatever order they came in: keeping the first is what makes
/// two of these merge exactly. No two items may be equal in that order.
template <class Item, class Less>
class TopN {
 public:
  explicit TopN(std::size_t capacity) : capacity_(capacity) {}
  void add(const Item& item) {
    ++seen_;
    keep(item);
  }
  void merge(const TopN& other) {
    for (const Item& item : other.items_) keep(item);
    seen_ += other.seen_;
  }
  [[nodiscard]] std::vector<Item> sorted() const {
    std::vector<Item> items = items_;
    std::sort(items.begin(), items.end(), Less{});
    if (items.size() > capacity_) items.resize(capacity_);
    return items;
  }
  /// Lets `how` change the items that are kept, but not their order.
  template <class How>
  void change(How how) {
    for (Item& item : items_) how(item);
  }
  /// Items that came, kept or not.
  [[nodiscard]] std::uint64_t seen() const { return seen_; }
  [[nodiscard]] bool empty() const { return seen_ == 0; }

 private:
  friend struct Archived;
  // Twice as many are held as are asked for; then the worse half goes: a constant cost for each.
  void keep(const Item& item) {
    if (bounded_ && !Less{}(item, worst_)) return;
    items_.push_back(item);
    if (items_.size() < 2 * capacity_) return;
    const auto end = items_.begin() + static_cast<std::ptrdiff_t>(capacity_);
    std::nth_element(items_.begin(), end - 1, items_.end(), Less{});
    worst_ = *(end - 1);
    bounded_ = true;
    items_.erase(end, items_.end());
  }

  std::size_t capacity_;
  std::uint64_t seen_ = 0;
  std::vector<Item> items_;
  Item worst_{};  ///< when bounded_: what is not before it is not among the first
  bool bounded_ = false;
};

}  // namespace rdmawire::captures::analysis
