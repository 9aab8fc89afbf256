#pragma once
/// Which edges were reached, of one kind of feedback: a bit for each number that an edge can have.

#include <cstdint>
#include <vector>

namespace rdmawire::fuzzer {

/// Numbers are taken modulo `places`: of 20,000 edges one in a hundred shares its place with another one.
class EdgeMap {
 public:
  static constexpr std::uint64_t places = 1U << 20;

  /// Whether it is new.
  bool add(std::uint64_t edge) {
    std::uint64_t& word = words_[edge % places / 64];
    const std::uint64_t bit = std::uint64_t{1} << edge % 64;
    if ((word & bit) != 0) return false;
    word |= bit;
    ++count_;
    return true;
  }
  /// For who looks first whether an edge is there: its bit is bit edge % 64 of word edge / 64.
  [[nodiscard]] const std::uint64_t* words() const { return words_.data(); }
  [[nodiscard]] std::uint64_t count() const { return count_; }
  /// Those that were added, each as a number below `places`, in rising order.
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
