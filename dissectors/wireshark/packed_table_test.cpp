// SPDX-License-Identifier: GPL-2.0-or-later
// Rows in compressed blocks.

#include "dissectors/wireshark/packed_table.hpp"

#include <gtest/gtest.h>

#include <random>

namespace rdmawire::wireshark {
namespace {

struct Numbers {
  std::uint64_t wide = 7;
  std::uint32_t narrow = 0;
  std::uint8_t flag = 0;
};
using Table = PackedTable<Numbers, 16, 4>;

TEST(PackedTable, NewRowsHaveDefaultValues) {
  Table table;
  table.grow(100);
  EXPECT_EQ(table.end(), 100U);
  EXPECT_EQ(table[99].wide, 7U);
  EXPECT_FALSE(table.has(100));
}

TEST(PackedTable, ChangesInRandomOrderAreKept) {
  Table table;
  std::vector<std::uint32_t> expected(2000);
  table.grow(expected.size());
  std::mt19937 random(1);
  for (int i = 0; i < 20'000; ++i) {
    const std::size_t at = random() % expected.size();
    ASSERT_EQ(std::as_const(table)[at].narrow, expected[at]) << at;
    if (random() % 2) expected[at] = table[at].narrow = random();
  }
  for (std::size_t i = 0; i < expected.size(); ++i) EXPECT_EQ(std::as_const(table)[i].narrow, expected[i]);
}

TEST(PackedTable, ReferenceIsValidWhileOtherBlocksAreUsed) {
  Table table;
  table.grow(1000);
  Numbers& row = table[500];
  for (std::size_t block = 0; block < 3; ++block) table[block * 16].flag = 1;
  row.narrow = 5;
  for (std::size_t i = 0; i < 1000; ++i) table[i].flag = 2;
  EXPECT_EQ(table[500].narrow, 5U);
}

TEST(PackedTable, ForgottenRowsAreGoneAndOthersRemain) {
  Table table;
  table.grow(200);
  for (std::size_t i = 0; i < 200; ++i) table[i].narrow = static_cast<std::uint32_t>(i);
  table.forget_before(100);
  EXPECT_EQ(table.begin(), 100U);
  EXPECT_FALSE(table.has(99));
  for (std::size_t i = 100; i < 200; ++i) EXPECT_EQ(table[i].narrow, i);
  table.grow(400);
  table[399].narrow = 1;
  EXPECT_EQ(table[150].narrow, 150U);
}

TEST(PackedTable, SimilarRowsNeedLittleMemory) {
  PackedTable<Numbers> table;
  table.grow(1'000'000);
  for (std::size_t i = 0; i < 1'000'000; ++i) table[i].narrow = static_cast<std::uint32_t>(i);
  EXPECT_LT(table.bytes(), 1'000'000 * sizeof(Numbers) / 4);
}

}  // namespace
}  // namespace rdmawire::wireshark
