#pragma once
/// A pool of objects of one type, indexed by number and allocated in large blocks.

#include <sys/mman.h>

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <new>
#include <vector>

namespace rdmawire::tracking {

/// Numbers of destroyed objects are reused, the last one first. Objects never move. `T` may be incomplete where the
/// pool is declared.
template <class T>
class Pool {
 public:
  using Index = std::uint32_t;
  Pool() = default;
  Pool(const Pool&) = delete;
  Pool& operator=(const Pool&) = delete;
  ~Pool() {
    for (Index at = 0; at < size_; ++at)
      if (alive_[at]) place(at)->~T();
  }

  /// Exclusive upper limit of all numbers assigned so far.
  [[nodiscard]] std::size_t size() const { return size_; }
  /// Returns the object with this number, or nullptr if there is none.
  [[nodiscard]] T* operator[](std::size_t at) const { return alive_[at] ? place(at) : nullptr; }

  Index create() {
    Index at = size_;
    if (!free_.empty()) {
      at = free_.back();
    } else if (at == pieces_.size() << bits) {
      pieces_.push_back(new_piece());
      alive_.resize(pieces_.size() << bits);
    }
    new (place(at)) T();
    alive_[at] = 1;
    if (at == size_)
      ++size_;
    else
      free_.pop_back();
    return at;
  }
  void destroy(Index at) {
    place(at)->~T();
    alive_[at] = 0;
    free_.push_back(at);
  }

  /// Memory in bytes, including that of destroyed objects.
  [[nodiscard]] std::size_t memory() const {
    return size_ * stride() + alive_.capacity() + free_.capacity() * sizeof(Index);
  }

 private:
  static constexpr unsigned bits = 10;  // log2 of the objects in a block
  static constexpr std::size_t line = 64;
  // Each object starts at a cache line.
  static constexpr std::size_t stride() { return (sizeof(T) + line - 1) / line * line; }

  struct Free {
    void operator()(std::byte* piece) const { std::free(piece); }
  };
  using Piece = std::unique_ptr<std::byte, Free>;

  // Uses 2 MiB pages if available, because with thousands of connections, small pages would cause TLB misses at each
  // packet.
  static Piece new_piece() {
    constexpr std::size_t huge = std::size_t{2} << 20;
    const std::size_t bytes = ((stride() << bits) + huge - 1) / huge * huge;
    auto* piece = static_cast<std::byte*>(std::aligned_alloc(huge, bytes));
    if (!piece) throw std::bad_alloc();
#ifdef MADV_HUGEPAGE
    ::madvise(piece, bytes, MADV_HUGEPAGE);
#endif
    return Piece(piece);
  }
  [[nodiscard]] T* place(std::size_t at) const {
    constexpr std::size_t mask = (std::size_t{1} << bits) - 1;
    return std::launder(reinterpret_cast<T*>(pieces_[at >> bits].get() + (at & mask) * stride()));
  }

  std::vector<Piece> pieces_;
  std::vector<std::uint8_t> alive_;
  std::vector<Index> free_;
  Index size_ = 0;
};

}  // namespace rdmawire::tracking
