#include "dissectors/output/edit_distance.hpp"

#include <gtest/gtest.h>

#include <random>
#include <string>

namespace rdmawire::output {
namespace {

TEST(EditDistance, CountsSteps) {
  EXPECT_EQ(edit_distance("", ""), 0U);
  EXPECT_EQ(edit_distance("bth", "bth"), 0U);
  EXPECT_EQ(edit_distance("bht", "bth"), 1U) << "turned neighbors";
  EXPECT_EQ(edit_distance("psn", "psns"), 1U);
  EXPECT_EQ(edit_distance("psn", "pan"), 1U);
  EXPECT_EQ(edit_distance("", "psn"), 3U);
  EXPECT_EQ(edit_distance("kitten", "sitting"), 3U);
}

TEST(EditDistance, LimitKeepsSmallerDistances) {
  std::mt19937 random(5);
  auto text = [&] {
    std::string s(random() % 9, ' ');
    for (char& c : s) c = static_cast<char>('a' + random() % 3);
    return s;
  };
  for (int i = 0; i < 20000; ++i) {
    const std::string a = text(), b = text();
    const std::size_t limit = random() % 5, whole = edit_distance(a, b), limited = edit_distance(a, b, limit);
    ASSERT_EQ(whole, edit_distance(b, a));
    if (whole <= limit) {
      ASSERT_EQ(limited, whole) << a << " " << b;
    } else {
      ASSERT_GT(limited, limit) << a << " " << b;
    }
  }
}

TEST(DidYouMean, NamesClosestNameIfOneIsSimilar) {
  constexpr std::string_view names[] = {"to", "from", "psn", "packet", "payload"};
  EXPECT_EQ(did_you_mean("pns", names), "; did you mean psn?");
  EXPECT_EQ(did_you_mean("paket", names), "; did you mean packet?");
  EXPECT_EQ(did_you_mean("qp", names), "") << "two of two characters differ";
  EXPECT_EQ(did_you_mean("t", names), "");
  EXPECT_EQ(did_you_mean("", names), "");
  EXPECT_EQ(did_you_mean("anything", std::span<const std::string_view>()), "");
  EXPECT_EQ(did_you_mean("pnS", std::vector<std::string>{"opcode", "psn"}), "");
  EXPECT_EQ(did_you_mean("opcde", std::vector<std::string>{"opcode", "psn"}), "; did you mean opcode?");
}

}  // namespace
}  // namespace rdmawire::output
