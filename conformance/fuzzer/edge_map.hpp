#pragma once
/// Set of reached edges of one kind of feedback, as a bit map.

#include <cstdint>
#include <vector>

namespace rdmawire::fuzzer {

/// Edge numbers are reduced modulo `places`. If there are 20,000 edges, about one in a hundred is lost by a collision.
class EdgeMap {
 public:
  static constexpr std::uint64_t places = 1U << 20;

  /// Return true if the edge is new.
  bool add(std::uint64_t edge) {
    std::uint64_t& word = words_[edge % places / 64];
    const std::uint64_t bit = std::uint64_t{1} << edge % 64;
    if ((word & bit) != 0) return false;
    word |= bit;
    ++count_;
    return true;
  }
  /// Return the bit map, for a fast test before add(). Edge e is bit e % 64 of word e / 64.
  [[nodiscard]] const std::uint64_t* words() const { return words_.data(); }
  [[nodiscard]] std::uint64_t count() const { return count_; }
  /// Return the added edges as numbers below `places`, in ascending order.
  [[nodiscard]] std::vector<std::uint64_t> all() const {
    std::vector<std::uint64_t> edges;
    for (std::uint64_t i = 0; i < places; ++i)
      if ((words_[i / 64] >> i % 64 & 1) != 0) edges.push_back(i);
    return edges;
  }
  friend bool operator==(const EdgeMap&, const EdgeMap&) = default;

 private:
  std::vector<std::uint64_t> words_ = std::vector<std::uint64_t>(places / 64);
  std::uint64_t count_ = 0;
};

}  // namespace rdmawire::fuzzer
