#include "conformance/report/conditions.hpp"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "conformance/cases/case_parameters.hpp"

namespace rdmawire::conformance {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;
using testing::StartsWith;

/// All rows of three parameters with two or three values, of which those fail that `fails` selects.
std::vector<EvaluatedRow> rows_with(const std::function<bool(int, int, int)>& fails) {
  std::vector<EvaluatedRow> rows;
  for (int a = 0; a < 3; ++a)
    for (int b = 0; b < 2; ++b)
      for (int c = 0; c < 2; ++c)
        rows.push_back(
            {{{"a", fmt::to_string(a)}, {"b", fmt::to_string(b)}, {"c", fmt::to_string(c)}}, fails(a, b, c)});
  return rows;
}

TEST(SeparatingCombinations, SmallestIsFound) {
  EXPECT_THAT(separating_combinations(rows_with([](int a, int, int) { return a == 1; })),
              ElementsAre(Combination{{"a", "1"}}));
  EXPECT_THAT(separating_combinations(rows_with([](int a, int, int c) { return a == 1 && c == 0; })),
              ElementsAre(Combination{{"a", "1"}, {"c", "0"}}));
  EXPECT_THAT(separating_combinations(rows_with([](int a, int b, int c) { return a == 2 && b == 1 && c == 1; })),
              ElementsAre(Combination{{"a", "2"}, {"b", "1"}, {"c", "1"}}));
}

TEST(SeparatingCombinations, EquivalentCombinationsAreAllFound) {
  // These rows do not distinguish a and b.
  const std::vector<EvaluatedRow> rows{{{{"a", "1"}, {"b", "1"}, {"c", "1"}}, true},
                                       {{{"a", "1"}, {"b", "1"}, {"c", "2"}}, true},
                                       {{{"a", "2"}, {"b", "2"}, {"c", "2"}}, false}};
  EXPECT_THAT(separating_combinations(rows), ElementsAre(Combination{{"a", "1"}}, Combination{{"b", "1"}}));
  EXPECT_THAT(separating_combinations(rows, 1), SizeIs(1));
}

TEST(SeparatingCombinations, NoneIsFoundWithoutASeparation) {
  EXPECT_THAT(separating_combinations(rows_with([](int a, int, int) { return a != 1; })), IsEmpty()) << "two values";
  EXPECT_THAT(separating_combinations(rows_with([](int, int, int) { return true; })), IsEmpty()) << "no row passed";
  EXPECT_THAT(separating_combinations(rows_with([](int, int, int) { return false; })), IsEmpty()) << "no row failed";
  EXPECT_THAT(separating_combinations({}), IsEmpty());
  // The same row passed and failed.
  const Combination same{{"a", "1"}};
  EXPECT_THAT(separating_combinations({{same, true}, {same, false}}), IsEmpty());
}

class ConditionsTest : public testing::Test {
 protected:
  /// A run of all rows of a rule, in which those fail that `judge` selects.
  void run(const char* rule, const std::function<Judgment(const std::string&)>& judge) {
    for (const Case& which : cases())
      if (which.rule->id == rule && !parameters_of(which).empty()) {
        CaseResult& result = report_.results.emplace_back();
        result.of = &which;
        result.judgment = judge(which.id());
      }
    ASSERT_GT(report_.results.size(), 20U);
  }
  Report report_;
};

constexpr const char* read_rule = "rc.responder.msn.in-read-response";
const Judgment passed{Verdict::pass, "", ""}, failed{Verdict::fail, "a", "b"};

TEST_F(ConditionsTest, ConditionOfAnMtuAndAPsnIsNamed) {
  run(read_rule, [](const std::string& id) {
    return id.find("MTU 256,") != std::string::npos && id.find("PSN wraps") != std::string::npos ? failed : passed;
  });
  const auto all = failure_conditions(report_);
  ASSERT_THAT(all, SizeIs(1));
  EXPECT_EQ(all[0].failed + all[0].passed, report_.results.size());
  EXPECT_THAT(text_of(all), HasSubstr(" fails whenever path MTU = 256 and first PSN = wraps"));
  EXPECT_THAT(text_of(all), HasSubstr(fmt::format(": {} row", all[0].failed)));
  const auto json = to_json(all)[0];
  EXPECT_EQ(json["whenever"][0]["path MTU"], "256");
  EXPECT_EQ(json["cases"].size(), all[0].failed);
}

TEST_F(ConditionsTest, DerivedParameterIsNamed) {
  run(read_rule, [](const std::string& id) {
    return id.find("MTU + 1 ") != std::string::npos || id.find("2 MTU") != std::string::npos ||
                   id.find("5 MTU") != std::string::npos
               ? failed
               : passed;
  });
  EXPECT_THAT(text_of(failure_conditions(report_)), HasSubstr(" fails whenever packets = several:"));
}

TEST_F(ConditionsTest, HonestWordsWithoutACondition) {
  run(read_rule, [](const std::string& id) {
    return id.find("MTU 256,") != std::string::npos || id.find("MTU 512,") != std::string::npos ? failed : passed;
  });
  EXPECT_THAT(text_of(failure_conditions(report_)),
              HasSubstr(" fails in some rows: no combination of up to 4 parameter values separates them, and all have "
                        "operation = READ: "));
  for (CaseResult& result : report_.results) result.judgment = failed;
  EXPECT_THAT(text_of(failure_conditions(report_)), HasSubstr(" fails in all rows: "));
  report_.results.front().judgment = {Verdict::inconclusive, "", "no response was captured"};
  EXPECT_THAT(text_of(failure_conditions(report_)), HasSubstr(" fails in all rows with a verdict on it: "));
  for (CaseResult& result : report_.results) result.judgment = passed;
  EXPECT_THAT(failure_conditions(report_), IsEmpty());
}

TEST_F(ConditionsTest, EachViolatedRuleHasItsCondition) {
  run(read_rule, [](const std::string& id) {
    Judgment judgment = id.find("MTU 256,") != std::string::npos ? failed : passed;
    if (id.find("MTU 512,") != std::string::npos) {
      judgment = failed;
      judgment.rule = find_rule("roce.sender.icrc.over-ipv4");
    }
    return judgment;
  });
  const auto all = failure_conditions(report_);
  ASSERT_THAT(all, SizeIs(2));
  for (const FailureConditions& one : all) EXPECT_GT(one.other, 0U);
  EXPECT_THAT(text_of(all), HasSubstr(" fails whenever path MTU = 256: "));
  EXPECT_THAT(text_of(all), HasSubstr(") fails whenever path MTU = 512: "));
}

TEST_F(ConditionsTest, SingleRowHasNoCondition) {
  run(read_rule, [](const std::string&) { return failed; });
  report_.results.resize(1);
  EXPECT_THAT(failure_conditions(report_), IsEmpty());
}

/// A case with a row for each path MTU.
CaseResult with_rows(const std::vector<RowResult>& results) {
  CaseResult result;
  result.of = &cases().front();
  result.free = 1U << static_cast<unsigned>(Parameter::path_mtu);
  result.judgment = {Verdict::fail, "a", "b"};
  for (std::size_t i = 0; i < results.size(); ++i) {
    result.rows.push_back(results[i]);
    result.rows.back().row = default_row();
    result.rows.back().row[static_cast<std::size_t>(Parameter::path_mtu)] = i;
  }
  return result;
}
const RowResult passed_row{.row = {}, .verdict = Verdict::pass};
const RowResult failed_row{.row = {}, .verdict = Verdict::fail};

TEST(EnvironmentConditions, ViolationsOfOtherRulesAreLeftOut) {
  RowResult other = failed_row;
  other.violated = find_rule("roce.sender.icrc.over-ipv4");
  Report report;
  report.results.push_back(with_rows({passed_row, failed_row, other}));
  const auto all = environment_conditions(report);
  ASSERT_THAT(all, SizeIs(1));
  EXPECT_EQ(all[0].failed, 1U);
  EXPECT_EQ(all[0].passed, 1U);
  EXPECT_THAT(all[0].whenever, ElementsAre(Combination{{"path MTU", "256"}}));
}

TEST(EnvironmentConditions, CanceledRowsPermitNoStatement) {
  Report report;
  report.results.push_back(with_rows({passed_row, failed_row, {.row = {}, .verdict = Verdict::error}}));
  EXPECT_THAT(environment_conditions(report), IsEmpty());
}

TEST(EnvironmentConditions, RowsWithoutAVerdictAreNotTested) {
  Report report;
  report.strength = 1;
  report.results.push_back(with_rows({passed_row, failed_row, {.row = {}, .verdict = Verdict::unsupported}}));
  EXPECT_EQ(combinations_of(report).covered, 2U);
}

TEST(CaseParameters, EachRowHasItsValues) {
  std::set<std::string> texts;
  std::size_t rows = 0;
  for (const Case& which : cases()) {
    std::string text(which.rule->id);
    const auto& parameters = parameters_of(which);
    for (const CaseParameter& one : parameters) text += one.name + "=" + one.value + ";";
    if (parameters.empty()) continue;
    ++rows;
    EXPECT_TRUE(texts.insert(text).second) << text;
    // The variant contains the same values in another form.
    EXPECT_THAT(std::string(which.variant), StartsWith(parameters[0].value + ", MTU " + parameters[1].value + ", "));
    EXPECT_THAT(std::string(which.variant),
                HasSubstr(", " + parameters[2].value + ", PSN " + parameters[4].value + ", "));
  }
  EXPECT_GT(rows, 200U);
}

}  // namespace
}  // namespace rdmawire::conformance
