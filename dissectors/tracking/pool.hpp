#pragma once
/// A pool of objects of one type. Objects have numbers, and are allocated in large blocks.

#include <sys/mman.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <new>
#include <vector>

namespace rdmawire::tracking {

/// Numbers of destroyed objects are reused, the last one first. Objects never move. `T` may be incomplete where the
/// pool is declared. A block contains 2^`bits` objects. Small objects are packed. Large objects start at a cache line.
template <class T, unsigned bits = 10>
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

  /// All numbers so far are below this limit.
  [[nodiscard]] std::size_t size() const { return size_; }
  /// Returns the object with this number, or nullptr if there is none.
  [[nodiscard]] T* operator[](std::size_t at) const { return alive_[at] ? place(at) : nullptr; }

  Index create() {
    Index at = size_;
    if (!free_.empty()) {
      at = free_.back();
    } else if (at == pieces_.size() << bits) {
      alive_.resize((pieces_.size() + 1) << bits);
      pieces_.reserve(pieces_.size() + 1);
      free_.reserve(alive_.size());  // ensures that destroy() does not allocate
      pieces_.push_back(new_piece());
    }
    if (!pieces_[at >> bits]) pieces_[at >> bits] = new_piece();
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

  /// Releases the memory of blocks without objects. Their numbers can be used again.
  void shrink() {
    for (std::size_t piece = 0; piece < pieces_.size(); ++piece) {
      const auto begin = alive_.begin() + static_cast<std::ptrdiff_t>(piece << bits);
      if (pieces_[piece] &&
          std::find(begin, begin + (std::ptrdiff_t{1} << bits), 1) == begin + (std::ptrdiff_t{1} << bits))
        pieces_[piece].reset();
    }
  }
  /// Memory of one object, in bytes.
  static constexpr std::size_t object_bytes() { return stride() + 1 + sizeof(Index); }
  /// Memory in bytes, including the memory of destroyed objects.
  [[nodiscard]] std::size_t memory() const {
    const auto blocks = static_cast<std::size_t>(
        std::count_if(pieces_.begin(), pieces_.end(), [](const Piece& piece) { return piece != nullptr; }));
    return std::min(std::size_t{size_}, blocks << bits) * stride() + alive_.capacity() +
           free_.capacity() * sizeof(Index);
  }

 private:
  static constexpr std::size_t line = 64;
  static constexpr std::size_t stride() {
    return sizeof(T) < 4 * line ? sizeof(T) : (sizeof(T) + line - 1) / line * line;
  }

  struct Free {
    void operator()(std::byte* piece) const { std::free(piece); }
  };
  using Piece = std::unique_ptr<std::byte, Free>;

  // Uses 2 MiB pages if available. If there are thousands of connections, small pages cause TLB misses at each packet.
  static Piece new_piece() {
    constexpr std::size_t huge = std::size_t{2} << 20;
    if ((stride() << bits) < huge) {
      auto* const small =
          static_cast<std::byte*>(std::aligned_alloc(line, ((stride() << bits) + line - 1) / line * line));
      if (!small) throw std::bad_alloc();
      return Piece(small);
    }
    // Not aligned_alloc(), because the size is not always a multiple of the alignment.
    const std::size_t bytes = stride() << bits;
    void* memory = nullptr;
    if (::posix_memalign(&memory, huge, bytes) != 0) throw std::bad_alloc();
    auto* piece = static_cast<std::byte*>(memory);
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
