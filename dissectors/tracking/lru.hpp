#pragma once
/// A hash table with a limited number of entries. It evicts the least recently used entry.

#include <algorithm>
#include <cstdint>
#include <memory>
#include <vector>

namespace rdmawire::tracking {

/// `Key` must have == and a member `hash()`, which returns 64 bits. The low bits must be well mixed. Memory grows with
/// the number of entries, of which there are at most `capacity`.
template <class Key, class Value>
class LruTable {
 public:
  explicit LruTable(std::uint32_t capacity) : capacity_(capacity ? capacity : 1) {}

  [[nodiscard]] bool empty() const { return size_ == 0; }
  [[nodiscard]] std::uint32_t size() const { return size_; }
  [[nodiscard]] std::uint32_t capacity() const { return capacity_; }
  /// Maximum value of size() so far.
  [[nodiscard]] std::uint32_t most() const { return most_; }
  /// Number of entries that were evicted because the table was full.
  [[nodiscard]] std::uint64_t evicted() const { return evicted_; }

  /// Returns the value of `key` and marks the entry as used. Returns nullptr if it does not exist. Valid until put() or
  /// erase().
  [[nodiscard]] Value* find(const Key& key) {
    if (size_ == 0) return nullptr;
    const std::uint32_t at = locate(key);
    if (at == none) return nullptr;
    touch(at);
    return &nodes_[at].value;
  }

  /// Inserts or replaces the value of `key`. Returns the new value, which is valid until the next put() or erase().
  Value& put(const Key& key, const Value& value) {
    if (Value* old = find(key)) return *old = value;
    if (size_ == capacity_) {
      ++evicted_;
      remove(last_);
    }
    if (size_ >= buckets_.size()) grow();
    std::uint32_t at = free_;
    if (at != none) {
      free_ = nodes_[at].chain;
      nodes_[at].key = key;
      nodes_[at].value = value;
    } else {
      at = static_cast<std::uint32_t>(nodes_.size());
      nodes_.push_back({key, value, none, none, none});
    }
    std::uint32_t& bucket = bucket_of(key);
    nodes_[at].chain = bucket;
    bucket = at;
    link(at);
    most_ = std::max(most_, ++size_);
    return nodes_[at].value;
  }

  void erase(const Key& key) {
    if (size_ == 0) return;
    const std::uint32_t at = locate(key);
    if (at != none) remove(at);
  }

  /// Calls `visit(key, value)` for each entry, least recently used first. `visit` must not change the table.
  template <class Visit>
  void for_each_oldest_first(Visit visit) {
    for (std::uint32_t at = last_; at != none; at = nodes_[at].newer) visit(nodes_[at].key, nodes_[at].value);
  }

  template <class Visit>
  void for_each_oldest_first(Visit visit) const {
    for (std::uint32_t at = last_; at != none; at = nodes_[at].newer) visit(nodes_[at].key, nodes_[at].value);
  }

  /// Removes all entries, which do not count as evicted.
  void clear() {
    nodes_.clear();
    buckets_.clear();
    size_ = 0;
    first_ = last_ = free_ = none;
  }

  /// Memory of the table in bytes, without memory that values allocate.
  [[nodiscard]] std::size_t memory() const {
    return nodes_.capacity() * sizeof(Node) + buckets_.capacity() * sizeof(std::uint32_t);
  }

 private:
  static constexpr std::uint32_t none = UINT32_MAX;
  struct Node {
    Key key;
    Value value;
    std::uint32_t chain;         // next entry of the bucket, or of the free list
    std::uint32_t newer, older;  // neighbors in the order of use
  };

  [[nodiscard]] std::uint32_t& bucket_of(const Key& key) { return buckets_[key.hash() & (buckets_.size() - 1)]; }
  [[nodiscard]] std::uint32_t locate(const Key& key) {
    std::uint32_t at = bucket_of(key);
    while (at != none && !(nodes_[at].key == key)) at = nodes_[at].chain;
    return at;
  }
  void link(std::uint32_t at) {
    nodes_[at].newer = none;
    nodes_[at].older = first_;
    if (first_ != none) nodes_[first_].newer = at;
    first_ = at;
    if (last_ == none) last_ = at;
  }
  void unlink(std::uint32_t at) {
    const Node& node = nodes_[at];
    (node.newer == none ? first_ : nodes_[node.newer].older) = node.older;
    (node.older == none ? last_ : nodes_[node.older].newer) = node.newer;
  }
  void touch(std::uint32_t at) {
    if (first_ == at) return;
    unlink(at);
    link(at);
  }
  void remove(std::uint32_t at) {
    std::uint32_t* from = &bucket_of(nodes_[at].key);
    while (*from != at) from = &nodes_[*from].chain;
    *from = nodes_[at].chain;
    unlink(at);
    nodes_[at].chain = free_;
    free_ = at;
    --size_;
  }
  void grow() {
    buckets_.assign(buckets_.empty() ? 16 : buckets_.size() * 2, none);
    for (std::uint32_t at = first_; at != none; at = nodes_[at].older) {
      std::uint32_t& bucket = bucket_of(nodes_[at].key);
      nodes_[at].chain = bucket;
      bucket = at;
    }
  }

  std::uint32_t capacity_;
  std::uint32_t size_ = 0, most_ = 0;
  std::uint64_t evicted_ = 0;
  std::uint32_t first_ = none, last_ = none, free_ = none;
  std::vector<Node> nodes_;
  std::vector<std::uint32_t> buckets_;
};

}  // namespace rdmawire::tracking
