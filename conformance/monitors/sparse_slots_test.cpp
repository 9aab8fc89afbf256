#include "conformance/monitors/sparse_slots.hpp"

#include <gtest/gtest.h>

#include <optional>
#include <random>

namespace rdmawire::conformance {
namespace {

TEST(SparseSlots, RandomChangesEqualThoseOfAnArray) {
  std::mt19937 random(1);
  for (int round = 0; round < 20; ++round) {
    SparseSlots<std::uint32_t> slots;
    std::array<std::optional<std::uint32_t>, 64> expected;
    for (int i = 0; i < 300; ++i) {
      const std::size_t slot = random() % 64;
      const auto value = static_cast<std::uint32_t>(random());
      slots.set(slot, value);
      expected[slot] = value;
      for (std::size_t at = 0; at < expected.size(); ++at) {
        const std::uint32_t* found = slots.find(at);
        ASSERT_EQ(found != nullptr, expected[at].has_value()) << at;
        if (found) {
          ASSERT_EQ(*found, *expected[at]) << at;
        }
      }
    }
  }
}

TEST(SparseSlots, FewItemsNeedLittleMemory) {
  SparseSlots<std::uint64_t> slots;
  EXPECT_EQ(slots.bytes(), 0U);
  slots.set(63, 1);
  slots.set(0, 2);
  EXPECT_LE(slots.bytes(), 8 * sizeof(std::uint64_t));
}

}  // namespace
}  // namespace rdmawire::conformance
