#pragma once
/// Tables of limited size that count the items they drop.

#include <algorithm>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "dissectors/tracking/fetch.hpp"

namespace rdmawire::captures::analysis {

/// Gives archive.cpp access to private members.
struct Archived;

/// Table of rows by key. Rows are never removed. `Key` must have == and `hash()`, which returns 64 bits. The low bits
/// must be well mixed.
template <class Key, class Row>
class BoundedTable {
 public:
  explicit BoundedTable(std::uint32_t capacity) : capacity_(capacity) {}

  /// Returns the row of `key`. Creates it if necessary. If the table is full, counts the failure and returns nullptr.
  /// The pointer is valid until the next call.
  Row* at(const Key& key) {
    if (rows_.size() * 2 >= slots_.size()) grow();
    for (std::size_t i = key.hash() & (slots_.size() - 1);; i = (i + 1) & (slots_.size() - 1)) {
      if (slots_[i] == none) {
        if (rows_.size() == capacity_) {
          ++overflow_;
          return nullptr;
        }
        rows_.emplace_back(key, Row{});  // before the slot is set, because it can throw
        slots_[i] = static_cast<std::uint32_t>(rows_.size() - 1);
        return &rows_.back().second;
      }
      if (rows_[slots_[i]].first == key) return &rows_[slots_[i]].second;
    }
  }
  [[nodiscard]] Row* find(const Key& key) {
    const auto row = find_index(key);
    return row ? &rows_[*row].second : nullptr;
  }
  /// Returns the index of `key` in rows(), or nullopt if there is none. Indices never change.
  [[nodiscard]] std::optional<std::uint32_t> find_index(const Key& key) const {
    if (slots_.empty()) return std::nullopt;
    for (std::size_t i = key.hash() & (slots_.size() - 1); slots_[i] != none; i = (i + 1) & (slots_.size() - 1))
      if (rows_[slots_[i]].first == key) return slots_[i];
    return std::nullopt;
  }
  /// Prefetch the memory that at() needs: call fetch_slot() first, and fetch_row() some packets later.
  void fetch_slot(const Key& key) const {
    if (!slots_.empty()) tracking::fetch(&slots_[key.hash() & (slots_.size() - 1)]);
  }
  void fetch_row(const Key& key) const {
    if (slots_.empty()) return;
    const std::uint32_t row = slots_[key.hash() & (slots_.size() - 1)];
    if (row != none) tracking::fetch(&rows_[row]);
  }
  /// Rows in the order of insertion.
  [[nodiscard]] const std::vector<std::pair<Key, Row>>& rows() const { return rows_; }
  /// Average memory of one row in bytes, including unused parts of the table.
  static constexpr std::size_t row_bytes() { return sizeof(std::pair<Key, Row>) * 3 / 2 + 3 * sizeof(std::uint32_t); }
  [[nodiscard]] std::uint32_t capacity() const { return capacity_; }
  /// Number of at() calls that failed because the table was full.
  [[nodiscard]] std::uint64_t overflow() const { return overflow_; }

  /// Requires that Row has `merge(const Row&)`.
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

/// A number as a key, with a hash that mixes the bits.
struct MixedNumber {
  std::uint64_t value = 0;
  friend bool operator==(const MixedNumber&, const MixedNumber&) = default;
  [[nodiscard]] std::uint64_t hash() const {
    std::uint64_t h = value * 0x9e3779b97f4a7c15;
    h = (h ^ h >> 32) * 0xbf58476d1ce4e5b9;
    return h ^ h >> 29;
  }
};

/// A set of numbers of limited size.
class BoundedSet {
 public:
  explicit BoundedSet(std::uint32_t capacity) : table_(capacity) {}
  /// Returns whether `value` was added. If the set is full, counts the failure and returns false.
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

/// Keeps the first `capacity` items in the order `Less`, regardless of the order of insertion. Two instances merge
/// exactly. Items must differ in that order.
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
  /// Applies `how` to each kept item. `how` must not change their order.
  template <class How>
  void change(How how) {
    for (Item& item : items_) how(item);
  }
  /// Number of items that were added, whether they were kept or not.
  [[nodiscard]] std::uint64_t seen() const { return seen_; }
  [[nodiscard]] bool empty() const { return seen_ == 0; }

 private:
  friend struct Archived;
  // Collects up to twice the capacity, and then removes the worse half, so that the amortized cost is constant.
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
  Item worst_{};  ///< valid if bounded_: only items before this one are kept
  bool bounded_ = false;
};

}  // namespace rdmawire::captures::analysis
