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
/// rows compress well. A reference to a row is valid until `open_blocks` - 1 other blocks were used.
template <class Row, std::size_t block_rows = 1024, std::size_t open_blocks = 64>
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
      if (block.rows) sum += block_rows * sizeof(Row);
    for (const auto& block : packed_) sum += sizeof block + block.capacity();
    return sum;
  }

 private:
  struct Open {
    std::unique_ptr<Row[]> rows;  ///< nullptr: unused
    std::size_t number = 0;
    std::uint64_t used = 0;
    bool changed = false;
  };
  static constexpr std::size_t block_bytes = block_rows * sizeof(Row);

  Open& open(std::size_t number) const {
    if (open_[last_].rows && open_[last_].number == number) return open_[last_];
    std::size_t oldest = 0;
    for (std::size_t i = 0; i < open_blocks; ++i) {
      if (open_[i].rows && open_[i].number == number) {
        last_ = i;
        open_[i].used = ++clock_;
        return open_[i];
      }
      const bool older =
          !open_[i].rows ? open_[oldest].rows != nullptr : open_[oldest].rows && open_[i].used < open_[oldest].used;
      if (older) oldest = i;
    }
    Open& block = open_[oldest];
    if (block.rows && block.changed) pack(block);
    if (!block.rows) block.rows = std::make_unique<Row[]>(block_rows);
    block.number = number;
    block.used = ++clock_;
    block.changed = false;
    last_ = oldest;
    unpack(block);
    return block;
  }
  void pack(const Open& block) const {
    const auto* bytes = reinterpret_cast<const std::uint8_t*>(block.rows.get());
    planes_.resize(block_bytes);
    for (std::size_t at = 0; at < sizeof(Row); ++at)
      for (std::size_t row = 0; row < block_rows; ++row) planes_[at * block_rows + row] = bytes[row * sizeof(Row) + at];
    packing_.resize(ZSTD_compressBound(block_bytes));
    const std::size_t size = ZSTD_compress(packing_.data(), packing_.size(), planes_.data(), block_bytes, 1);
    if (ZSTD_isError(size)) throw std::bad_alloc();
    std::vector<std::uint8_t>& to = packed_[block.number - first_block_];
    to = std::vector<std::uint8_t>(packing_.begin(), packing_.begin() + static_cast<std::ptrdiff_t>(size));
  }
  void unpack(Open& block) const {
    const std::vector<std::uint8_t>& from = packed_[block.number - first_block_];
    if (from.empty()) {
      std::fill_n(block.rows.get(), block_rows, Row{});
      return;
    }
    planes_.resize(block_bytes);
    const std::size_t size = ZSTD_decompress(planes_.data(), block_bytes, from.data(), from.size());
    if (size != block_bytes) throw std::bad_alloc();
    auto* bytes = reinterpret_cast<std::uint8_t*>(block.rows.get());
    for (std::size_t at = 0; at < sizeof(Row); ++at)
      for (std::size_t row = 0; row < block_rows; ++row) bytes[row * sizeof(Row) + at] = planes_[at * block_rows + row];
  }

  std::size_t begin_ = 0, end_ = 0, first_block_ = 0;
  mutable std::deque<std::vector<std::uint8_t>> packed_;  ///< by number. Empty: default rows, or only open
  mutable std::array<Open, open_blocks> open_;
  mutable std::size_t last_ = 0;
  mutable std::uint64_t clock_ = 0;
  mutable std::vector<std::uint8_t> planes_, packing_;
};

}  // namespace rdmawire::wireshark
