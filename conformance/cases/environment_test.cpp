#include "conformance/cases/environment.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <set>

namespace rdmawire::conformance {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

constexpr ParameterSet bit(Parameter parameter) { return 1U << static_cast<unsigned>(parameter); }
constexpr ParameterSet some =
    bit(Parameter::path_mtu) | bit(Parameter::tester_psn) | bit(Parameter::history) | bit(Parameter::other_qps);

TEST(Environment, ParametersAreInTheOrderOfTheEnumeration) {
  ASSERT_EQ(all_parameters().size(), parameter_count);
  std::set<std::string_view> names;
  for (std::size_t i = 0; i < parameter_count; ++i) {
    const ParameterInfo& info = all_parameters()[i];
    EXPECT_EQ(static_cast<std::size_t>(info.parameter), i) << info.name;
    EXPECT_TRUE(names.insert(info.name).second) << info.name;
    EXPECT_TRUE(info.roce || info.iwarp) << info.name;
    EXPECT_GT(info.values.size(), 1U) << info.name;
    EXPECT_LE(info.values.size(), 10U) << info.name << ": a report encodes a value as one digit";
    const std::set<std::string_view> values(info.values.begin(), info.values.end());
    EXPECT_EQ(values.size(), info.values.size()) << info.name;
  }
}

TEST(Environment, StrengthZeroRunsOnlyTheDefaultRow) {
  EXPECT_THAT(environment_rows(some, {}, 0, 1), ElementsAre(default_row()));
  EXPECT_THAT(environment_rows(0, {}, 2, 1), ElementsAre(default_row()));
}

TEST(Environment, RowsCoverEachCombinationAndBeginWithTheDefaultRow) {
  std::size_t before = 1;
  for (const unsigned strength : {1U, 2U, 3U}) {
    const auto rows = environment_rows(some, {}, strength, 7);
    EXPECT_EQ(rows.front(), default_row());
    EXPECT_GT(rows.size(), before);
    before = rows.size();
    const CombinationCounts counts = environment_combinations(some, {}, strength, rows);
    EXPECT_EQ(counts.covered, counts.possible);
    EXPECT_EQ(counts.possible, counts.existing);
    const auto fewer = environment_combinations(some, {}, strength, {rows.begin(), rows.end() - 1});
    EXPECT_LT(fewer.covered, counts.covered) << "the last row adds combinations";
    for (const ParameterRow& row : rows)
      for (std::size_t i = 0; i < parameter_count; ++i)
        EXPECT_TRUE(row[i] == 0 || (some >> i & 1U) != 0) << "only free parameters vary";
  }
}

TEST(Environment, RowsDependOnlyOnTheSeed) {
  EXPECT_EQ(environment_rows(some, {}, 2, 7), environment_rows(some, {}, 2, 7));
  EXPECT_NE(environment_rows(some, {}, 2, 7), environment_rows(some, {}, 2, 8));
}

TEST(Environment, FixedParametersKeepTheirDefaultValue) {
  ParameterRow row = default_row();
  row[static_cast<std::size_t>(Parameter::history)] = 2;
  Environment environment(row);
  EXPECT_EQ(environment.take(Parameter::history), 2U);
  EXPECT_EQ(environment.use(Parameter::history), ParameterUse::free);
  environment.fix(Parameter::history, "its MSN starts at zero");
  EXPECT_EQ(environment.take(Parameter::history), 0U);
  EXPECT_EQ(environment.use(Parameter::history), ParameterUse::fixed);
  EXPECT_EQ(environment.reason(Parameter::history), "its MSN starts at zero");
  EXPECT_EQ(environment.use(Parameter::region), ParameterUse::none);
  EXPECT_EQ(free_parameters(environment), 0U);
}

TEST(Environment, OptionThatACaseSetsKeepsItsValue) {
  ParameterRow row = default_row();
  row[static_cast<std::size_t>(Parameter::path_mtu)] = 1;
  Environment environment(row);
  constexpr std::array<std::uint32_t, 5> mtus{1024, 256, 512, 2048, 4096};
  Option<std::uint32_t> set = 512, open = Option<std::uint32_t>::usual(1024);
  set.resolve(environment, Parameter::path_mtu, mtus);
  EXPECT_EQ(set.value(), 512U);
  EXPECT_EQ(environment.use(Parameter::path_mtu), ParameterUse::fixed);
  open.resolve(environment, Parameter::path_mtu, mtus);
  EXPECT_EQ(open.value(), 256U);
  EXPECT_EQ(environment.use(Parameter::path_mtu), ParameterUse::free);
}

TEST(Environment, RowsAreReadAsTheyArePrinted) {
  for (const ParameterRow& row : environment_rows(some, {}, 2, 3)) EXPECT_EQ(parse_row(text_of_row(row)), row);
  EXPECT_THAT(parse_row("path MTU=300").error(), HasSubstr("allowed: usual, 256, 512, 1024, 2048, 4096"));
  EXPECT_THAT(parse_row("MTU=256").error(), HasSubstr("unknown parameter \"MTU\", allowed: path MTU, "));
  EXPECT_THAT(parse_row("path MTU").error(), HasSubstr("\"\" is no value of path MTU"));
}

}  // namespace
}  // namespace rdmawire::conformance
