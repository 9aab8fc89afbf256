#include "conformance/cases/parameters.hpp"

#include <gtest/gtest.h>

#include <algorithm>

namespace rdmawire::conformance {
namespace {

CoveringOptions equal_parameters(std::size_t count, std::size_t values, unsigned strength = 2) {
  return {.values = std::vector<std::size_t>(count, values), .strength = strength};
}

void covers_all(const CoveringOptions& options, std::size_t most_rows) {
  const auto rows = covering_rows(options);
  const CombinationCounts counts = count_combinations(options, rows);
  EXPECT_EQ(counts.covered, counts.possible);
  EXPECT_LE(rows.size(), most_rows);
  EXPECT_EQ(rows, covering_rows(options)) << "deterministic";
}

// The smallest known arrays have 9, 15, 25, 6, 27 and 35 rows. This construction needs up to twice as many.
TEST(CoveringRows, CoverAllCombinationsWithFewRows) {
  covers_all(equal_parameters(4, 3), 12);
  covers_all(equal_parameters(13, 3), 32);
  covers_all(equal_parameters(5, 5), 38);
  covers_all(equal_parameters(10, 2), 12);
  covers_all(equal_parameters(4, 3, 3), 40);
  covers_all({.values = {5, 7, 4, 3}}, 42);
}

TEST(CoveringRows, FewerRowsDoNotCoverAll) {
  const CoveringOptions options = equal_parameters(4, 3);
  auto rows = covering_rows(options);
  rows.resize(8);
  const CombinationCounts counts = count_combinations(options, rows);
  EXPECT_EQ(counts.existing, 54U);
  EXPECT_LT(counts.covered, counts.possible);
}

TEST(CoveringRows, RowsObeyConstraint) {
  CoveringOptions options = equal_parameters(4, 3);
  // Value 2 of the first parameter excludes value 2 of the last one.
  options.allowed = [](const ParameterRow& row) { return row[0] != 2 || row[3] != 2; };
  const auto rows = covering_rows(options);
  EXPECT_TRUE(std::ranges::all_of(rows, options.allowed));
  const CombinationCounts counts = count_combinations(options, rows);
  EXPECT_EQ(counts.existing, 54U);
  EXPECT_EQ(counts.possible, 53U);
  EXPECT_EQ(counts.covered, 53U);
}

TEST(CoveringRows, GivenRowsAreKeptAndCount) {
  CoveringOptions options = equal_parameters(4, 3);
  options.allowed = [](const ParameterRow& row) { return row[0] != 2; };
  CoveringOptions all = equal_parameters(4, 3);
  all.given = covering_rows(options);
  const auto rows = covering_rows(all);
  ASSERT_GT(rows.size(), all.given.size());
  EXPECT_TRUE(std::equal(all.given.begin(), all.given.end(), rows.begin()));
  EXPECT_TRUE(std::all_of(rows.begin() + static_cast<std::ptrdiff_t>(all.given.size()), rows.end(),
                          [](const ParameterRow& row) { return row[0] == 2; }))
      << "only combinations with the excluded value are missing";
  EXPECT_EQ(count_combinations(all, rows).covered, 54U);
}

TEST(CoveringRows, TriplesOfManyParametersAreCovered) {
  covers_all({.values = {6, 7, 7, 8, 3, 3, 3, 7, 7, 2, 2, 5, 3, 3}, .strength = 2}, 85);
  covers_all({.values = {6, 7, 7, 8, 3, 3, 3, 7, 7, 2, 2, 5, 3, 3}, .strength = 3}, 700);
}

TEST(CoveringRows, StrengthOneUsesEachValue) {
  covers_all(equal_parameters(4, 3, 1), 3);
  covers_all({.values = {5, 2}, .strength = 1}, 5);
}

}  // namespace
}  // namespace rdmawire::conformance
