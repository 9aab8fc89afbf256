#include "dissectors/tracking/send_order.hpp"

#include <gtest/gtest.h>

namespace rdmawire::tracking {
namespace {

SendOrder after(std::initializer_list<int> identifications) {
  SendOrder order;
  for (const int i : identifications) order.note(static_cast<std::uint16_t>(i));
  return order;
}

TEST(SendOrder, RisingIdentificationsShowTheOrder) {
  EXPECT_FALSE(after({1, 2, 3, 4}).numbered());
  EXPECT_TRUE(after({65533, 65534, 65535, 0, 2, 40, 41, 42}).numbered());
  EXPECT_FALSE(after({0, 0, 0, 0, 0, 0, 0, 0}).numbered());
  EXPECT_FALSE(after({7, 60000, 3, 9999, 40000, 12, 65000, 800}).numbered());
}

TEST(SendOrder, LatePacketKeepsTheNewest) {
  SendOrder order = after({10, 11, 12, 13, 14, 15, 16, 18, 19});
  ASSERT_TRUE(order.numbered());
  EXPECT_TRUE(order.is_late(17));
  EXPECT_FALSE(order.is_late(19));
  EXPECT_FALSE(order.is_late(20));
  order.note(17);
  EXPECT_TRUE(order.numbered());
  EXPECT_EQ(order.newest(), 19);
}

TEST(SendOrder, RemembersTheLastIdentifications) {
  SendOrder order = after({65530, 65531, 65533, 65534, 65535, 0, 1, 3});
  ASSERT_TRUE(order.numbered());
  for (const int captured : {65530, 65531, 65533, 65535, 0, 3})
    EXPECT_TRUE(order.contains(static_cast<std::uint16_t>(captured))) << captured;
  for (const int missing : {65529, 65532, 2, 4}) EXPECT_FALSE(order.contains(static_cast<std::uint16_t>(missing)));
  order.note(2);  // a late packet
  EXPECT_TRUE(order.contains(2));
  order.note(100);
  EXPECT_FALSE(order.contains(3));
  EXPECT_TRUE(order.contains(100));
}

TEST(SendOrder, ComparesAcrossTheWraparound) {
  EXPECT_TRUE(SendOrder::is_after(3, 65530));
  EXPECT_FALSE(SendOrder::is_after(65530, 3));
  EXPECT_FALSE(SendOrder::is_after(5, 5));
}

TEST(SendOrder, DuplicatesAreNoConstant) {
  EXPECT_TRUE(after({1, 2, 3, 4, 5, 6, 7, 8, 8, 9}).numbered());
  EXPECT_FALSE(after({1, 2, 3, 4, 5, 6, 7, 8, 8, 8, 8}).numbered());
}

TEST(SendOrder, RandomIdentificationsAreDistinct) {
  EXPECT_TRUE(after({7, 60000, 3, 9999, 40000}).distinct());
  EXPECT_TRUE(after({1, 2, 3, 4}).distinct());
  EXPECT_FALSE(after({1, 1, 1, 1}).distinct());
  EXPECT_FALSE(after({0, 0, 0, 0}).distinct());
}

}  // namespace
}  // namespace rdmawire::tracking
