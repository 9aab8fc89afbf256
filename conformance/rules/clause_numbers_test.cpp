#include "conformance/rules/clause_numbers.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <set>

#include "conformance/rules/explain_rules.hpp"

namespace rdmawire::conformance {
namespace {

using testing::Contains;
using testing::HasSubstr;
using testing::Not;

class ClauseNumbersTest : public testing::Test {
 protected:
  ~ClauseNumbersTest() override { use_clause_numbers({}); }
  const Rule& rule_ = *find_rule("XRC-005");
  const std::size_t index_ = static_cast<std::size_t>(&rule_ - rules.data());
};

TEST_F(ClauseNumbersTest, SuppliedNumberReplacesTheNote) {
  EXPECT_THAT(clauses_of(rule_), HasSubstr("XRC (near Annex A14, clause number not verified)"));
  const std::size_t missing = count_clause_numbers().missing;
  std::size_t last = 0;
  while (rule_.clauses[last].title != "XRC") ++last;
  use_clause_numbers({{{index_, last}, {"1.7", "A14.3.2", "oA14-1", "45"}}});
  EXPECT_THAT(clauses_of(rule_), HasSubstr("IBTA vol 1 release 1.7, A14.3.2, oA14-1, table 45 (XRC)"));
  EXPECT_THAT(clauses_of(rule_), HasSubstr("checks of the BTH (near 9.6.1, clause number not verified)"));
  EXPECT_THAT(explain_rule(rule_), HasSubstr("A14.3.2"));
  const auto json = nlohmann::json::parse(rule_json(rule_))["clauses"];
  EXPECT_EQ(json[last]["supplied"], true);
  EXPECT_EQ(json[last]["verified"], true);
  EXPECT_FALSE(json[1 - last].contains("supplied"));
  EXPECT_EQ(count_clause_numbers().supplied, 1U);
  EXPECT_EQ(count_clause_numbers().missing, missing - 1);
}

TEST_F(ClauseNumbersTest, RuleIsFoundByEachPartOfItsNumber) {
  for (const char* number : {"A14.3.2", "oA14-1", "table 45"}) EXPECT_THAT(select_rules(number), Not(Contains(&rule_)));
  use_clause_numbers({{{index_, 1}, {"1.7", "A14.3.2", "oA14-1", "45"}}});
  for (const char* number : {"A14.3.2", "oa14-1", "table 45"}) EXPECT_THAT(select_rules(number), Contains(&rule_));
  EXPECT_THAT(select_rules("A14.3"), Not(Contains(&rule_)));
}

TEST_F(ClauseNumbersTest, TextsStayValidAfterAnotherFile) {
  use_clause_numbers({{{index_, 1}, {"1.7", "A14.3.2", "", ""}}});
  const std::vector<Source> before = sources_of(rule_);
  use_clause_numbers({});
  EXPECT_EQ(before[1].clause.number, "A14.3.2");
  EXPECT_FALSE(sources_of(rule_)[1].is_supplied);
}

TEST_F(ClauseNumbersTest, PlacesOutsideTheTableAreIgnored) {
  use_clause_numbers({{{rules.size(), 0}, {"1.7", "9", "", ""}}, {{index_, 7}, {"1.7", "9", "", ""}}});
  EXPECT_EQ(count_clause_numbers().supplied, 0U);
  const Rule copy = rule_;
  EXPECT_EQ(clauses_of(copy), clauses_of(rule_));
}

// Titles must be unique within a rule, because a file identifies a clause by its title.
TEST_F(ClauseNumbersTest, TitlesOfARuleAreUnique) {
  for (const Rule& rule : rules) {
    std::set<std::string_view> titles;
    for (const Clause& clause : rule.sources()) {
      if (lacks_number(clause)) {
        EXPECT_TRUE(titles.insert(clause.title).second) << rule.id;
      }
    }
  }
}

}  // namespace
}  // namespace rdmawire::conformance
