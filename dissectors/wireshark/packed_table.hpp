// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once
/// Rows by index, of which only the recently used ones are in memory uncompressed.

#include <zstd.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <new>
#include <type_traits>
#include <vector>

namespace rdmawire::wireshark {

/// Blocks of rows. The least recently used blocks are compressed, byte by byte of the row: equal bytes of neighboring
/// rows compress well. A reference to a row is valid until `open_blocks` - 1 other blocks were used. Small blocks make
/// the use of old rows in random order cheaper, large ones compress better.
template <class Row, std::size_t block_rows = 256, std::size_t open_blocks = 64>
class PackedTable {
  static_assert(std::is_trivially_copyable_v<Row>);
  static_assert(open_blocks >= 4);

 public:
  [[nodiscard]] std::size_t begin() const { return begin_; }
  [[nodiscard]] std::size_t end() const { return end_; }
  [[nodiscard]] bool has(std::size_t index) const { return index >= begin_ && index < end_; }
  /// For writing: the block is compressed again.
  Row& operator[](std::size_t index) {
    Open& block = open(index / block_rows);
    block.changed = true;
    return block.rows[index % block_rows];
  }
  const Row& operator[](std::size_t index) const { return open(index / block_rows).rows[index % block_rows]; }
  /// Grows to `end` default rows.
  void grow(std::size_t end) {
    if (end <= end_) return;
    end_ = end;
    while ((first_block_ + packed_.size()) * block_rows < end) packed_.emplace_back();
  }
  /// Adds a row at the end.
  Row& add(const Row& row) {
    grow(end_ + 1);
    return (*this)[end_ - 1] = row;
  }
  void forget_before(std::size_t index) {
    begin_ = std::max(begin_, std::min(index, end_));
    for (; (first_block_ + 1) * block_rows <= begin_ && !packed_.empty(); ++first_block_) packed_.pop_front();
    for (Open& block : open_)
      if (block.rows && block.number < first_block_) block = {};
    last_ = 0;
  }
  /// Memory of the rows in bytes.
  [[nodiscard]] std::size_t bytes() const {
    std::size_t sum = 0;
    for (const Open& block : open_)
      if (block.rows) sum += block_bytes;
    for (const Packed& block : packed_) sum += sizeof block + block.size;
    return sum;
  }

 private:
  struct Open {
    std::unique_ptr<Row[]> rows;  ///< nullptr: unused
    std::size_t number = 0;
    std::uint64_t used = 0;
    bool changed = false;
  };
  struct Packed {
    std::unique_ptr<std::uint8_t[]> bytes;  ///< nullptr: default rows, or only open
    std::uint32_t size = 0;
    std::uint32_t open = none;  ///< position in open_
  };
  struct Free {
    void operator()(ZSTD_CCtx* context) const { ZSTD_freeCCtx(context); }
    void operator()(ZSTD_DCtx* context) const { ZSTD_freeDCtx(context); }
  };
  static constexpr std::uint32_t none = UINT32_MAX;
  static constexpr std::size_t block_bytes = block_rows * sizeof(Row);

  Open& open(std::size_t number) const {
    if (open_[last_].rows && open_[last_].number == number) return open_[last_];
    std::uint32_t& at = packed_[number - first_block_].open;
    if (at == none) {
      last_ = least_used();
      Open& block = open_[last_];
      if (block.rows) {
        if (block.changed) pack(block);
        packed_[block.number - first_block_].open = none;
      } else {
        block.rows = std::make_unique<Row[]>(block_rows);
      }
      block.number = number;
      block.changed = false;
      at = static_cast<std::uint32_t>(last_);
      unpack(block);
    }
    last_ = at;
    open_[last_].used = ++clock_;
    return open_[last_];
  }
  [[nodiscard]] std::size_t least_used() const {
    std::size_t oldest = 0;
    for (std::size_t i = 0; i < open_blocks; ++i) {
      if (!open_[i].rows) return i;
      if (open_[i].used < open_[oldest].used) oldest = i;
    }
    return oldest;
  }
  void pack(const Open& block) const {
    const auto* bytes = reinterpret_cast<const std::uint8_t*>(block.rows.get());
    planes_.resize(block_bytes);
    for (std::size_t at = 0; at < sizeof(Row); ++at)
      for (std::size_t row = 0; row < block_rows; ++row) planes_[at * block_rows + row] = bytes[row * sizeof(Row) + at];
    packing_.resize(ZSTD_compressBound(block_bytes));
    if (!compressor_) compressor_.reset(ZSTD_createCCtx());
    if (!compressor_) throw std::bad_alloc();
    const std::size_t size =
        ZSTD_compressCCtx(compressor_.get(), packing_.data(), packing_.size(), planes_.data(), block_bytes, 1);
    if (ZSTD_isError(size)) throw std::bad_alloc();
    Packed& to = packed_[block.number - first_block_];
    to.bytes = std::make_unique<std::uint8_t[]>(size);
    to.size = static_cast<std::uint32_t>(size);
    std::copy_n(packing_.begin(), size, to.bytes.get());
  }
  void unpack(Open& block) const {
    const Packed& from = packed_[block.number - first_block_];
    if (!from.bytes) {
      std::fill_n(block.rows.get(), block_rows, Row{});
      return;
    }
    planes_.resize(block_bytes);
    if (!decompressor_) decompressor_.reset(ZSTD_createDCtx());
    if (!decompressor_) throw std::bad_alloc();
    const std::size_t size =
        ZSTD_decompressDCtx(decompressor_.get(), planes_.data(), block_bytes, from.bytes.get(), from.size);
    if (size != block_bytes) throw std::bad_alloc();
    auto* bytes = reinterpret_cast<std::uint8_t*>(block.rows.get());
    for (std::size_t at = 0; at < sizeof(Row); ++at)
      for (std::size_t row = 0; row < block_rows; ++row) bytes[row * sizeof(Row) + at] = planes_[at * block_rows + row];
  }

  std::size_t begin_ = 0, end_ = 0, first_block_ = 0;
  mutable std::deque<Packed> packed_;  ///< by number
  mutable std::array<Open, open_blocks> open_;
  mutable std::size_t last_ = 0;
  mutable std::uint64_t clock_ = 0;
  mutable std::vector<std::uint8_t> planes_, packing_;
  mutable std::unique_ptr<ZSTD_CCtx, Free> compressor_;
  mutable std::unique_ptr<ZSTD_DCtx, Free> decompressor_;
};

}  // namespace rdmawire::wireshark
