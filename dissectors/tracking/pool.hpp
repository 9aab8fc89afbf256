#pragma once
/// Many objects of one type, found by number, in few large pieces of memory.

#include <sys/mman.h>

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <new>
#include <vector>

namespace rdmawire::tracking {

/// Numbers of objects that were destroyed are used again, the last one first. Objects stay where they are. `T` may be
/// incomplete where the pool is declared.
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

  /// All numbers so far are less.
  [[nodiscard]] std::size_t size() const { return size_; }
  /// nullptr: there is none of this number now.
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

  /// Bytes, those of objects that were destroyed among them.
  [[nodiscard]] std::size_t memory() const {
    return size_ * stride() + alive_.capacity() + free_.capacity() * sizeof(Index);
  }

 private:
  static constexpr unsigned bits = 10;  // objects a piece, as a power of two
  static constexpr std::size_t line = 64;
  // Each begins a cache line.
  static constexpr std::size_t stride() { return (sizeof(T) + line - 1) / line * line; }

  struct Free {
    void operator()(std::byte* piece) const { std::free(piece); }
  };
  using Piece = std::unique_ptr<std::byte, Free>;

  // Pages of two megabytes where the system has them: thousands of connections would miss the TLB with each packet.
  static Piece new_piece() {
    constexpr std::size_t huge = std::size_t{2} << 20;
    const std::size_t bytes = ((stride() << bits) + huge - 1) / huge * huge;
    auto* piece = static_cast<std::byte*>(std::aligned_alloc(huge, bytes));
    if (!piece) throw std::bad_alloc();
#ifdef MADV_HUGEPAGE
    ::madvise(piece, octets, MADV_HUGEPAGE);
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
