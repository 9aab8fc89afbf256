/// Rows of the environment of a case.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <thread>

#include "conformance/runner/certify.hpp"

namespace rdmawire::conformance {
namespace {

using namespace std::chrono_literals;
using testing::HasSubstr;

constexpr RuleId rule = "rc.responder.psn.sequence-error";

CertifyOptions options_for(unsigned strength) {
  CertifyOptions options;
  options.seed = 11;
  options.strength = strength;
  options.fresh = true;
  options.open = [](Family family) { return Target::open({.family = family, .seed = 3}); };
  return options;
}

void fails_with_small_packets_of_tester(Bench& bench) {
  Connected& qp = bench.rc({.device_psn = 7});
  bench.require(qp.mtu != 512 || qp.ours.value() != 0, "another row", "the path MTU is 512 and the PSN 0");
}
constexpr Case picky{.rule = rule, .variant = "picky", .run = fails_with_small_packets_of_tester};
void passes(Bench& bench) { bench.note("fine"); }
constexpr Case simple{.rule = rule, .variant = "without a connection", .run = passes};

TEST(Rows, ResultIsThatOfTheFailedRow) {
  const Certification all = certify(std::vector<const Case*>{&picky, &simple}, options_for(2));
  ASSERT_EQ(all.results.size(), 2U);
  const CaseResult& result = all.results[0];
  EXPECT_EQ(result.judgment.verdict, Verdict::fail);
  EXPECT_THAT(text_of_row(result.row), HasSubstr("path MTU=512,tester PSN=0"));
  ASSERT_GT(result.rows.size(), 20U);
  EXPECT_EQ(result.rows.front().row, default_row());
  for (const RowResult& row : result.rows) {
    const bool fails = text_of_row(row.row).starts_with("path MTU=512,tester PSN=0,") ||
                       text_of_row(row.row) == "path MTU=512,tester PSN=0";
    EXPECT_EQ(row.verdict, fails ? Verdict::fail : Verdict::pass) << text_of_row(row.row);
  }
  const auto fixed = std::ranges::find(result.fixed, Parameter::device_psn, &FixedParameter::parameter);
  ASSERT_NE(fixed, result.fixed.end()) << "the case sets the PSN of the device";
  EXPECT_THAT(fixed->reason, HasSubstr("require"));
  EXPECT_FALSE(result.flaky()) << "rows may differ";
  EXPECT_TRUE(all.results[1].rows.empty()) << "a case without connections has no parameters";
}

TEST(Rows, OneRowIsRepeated) {
  CertifyOptions options = options_for(0);
  options.row = parse_row("path MTU=512,tester PSN=0").value();
  const Certification one = certify(std::vector<const Case*>{&picky}, options);
  EXPECT_EQ(one.results.at(0).judgment.verdict, Verdict::fail);
  EXPECT_EQ(one.results.at(0).row, *options.row);
  options.row = parse_row("path MTU=512").value();
  EXPECT_EQ(certify(std::vector<const Case*>{&picky}, options).results.at(0).judgment.verdict, Verdict::pass);
}

TEST(Rows, RowThatTheDeviceDoesNotSupportIsUnsupported) {
  CertifyOptions options = options_for(0);
  options.row = parse_row("markers=on").value();
  const Certification all = certify(std::vector<const Case*>{&picky}, options);
  EXPECT_EQ(all.results.at(0).judgment.verdict, Verdict::unsupported);
  EXPECT_THAT(all.results.at(0).judgment.actual, HasSubstr("markers=on"));
}

std::atomic<int> calls = 0;
void is_slow(Bench& bench) {
  static_cast<void>(bench.rc());
  ++calls;
  std::this_thread::sleep_for(20ms);
}
constexpr Case slow{.rule = rule, .variant = "slow", .run = is_slow};
constexpr Case slow_too{.rule = rule, .variant = "slow, too", .run = is_slow};

TEST(Rows, BudgetLimitsTheRowsOfAllCases) {
  calls = 0;
  CertifyOptions options = options_for(2);
  options.budget = 500ms;
  std::size_t ends = 0;
  options.on_end = [&](const CaseResult&) { ++ends; };
  const Certification all = certify(std::vector<const Case*>{&slow, &slow_too}, options);
  ASSERT_EQ(all.results.size(), 2U);
  EXPECT_EQ(ends, 2U);
  EXPECT_EQ(all.partial, "");
  const auto first = all.results[0].rows.size(), second = all.results[1].rows.size();
  EXPECT_EQ(first + second, static_cast<std::size_t>(calls));
  EXPECT_LE(first - second, 1U) << "the cases take turns";
  EXPECT_LT(first, 30U) << "the budget ends before all rows ran";
}

TEST(Rows, BudgetBelowOneRunOfEachCaseIsReported) {
  CertifyOptions options = options_for(2);
  options.budget = 1ms;
  const Certification all = certify(std::vector<const Case*>{&slow, &slow_too}, options);
  EXPECT_THAT(all.partial, HasSubstr("spent before each case ran once"));
}

std::atomic<int> turn = 0;
void changes_its_mind(Bench& bench) {
  static_cast<void>(bench.uc());
  bench.require(++turn % 2 == 0, "the same as before", "something else");
}
constexpr Case moody{.rule = rule, .variant = "moody in rows", .run = changes_its_mind};

TEST(Rows, OnlyDifferencesWithinARowAreFlaky) {
  turn = 0;
  CertifyOptions options = options_for(1);
  options.repeat = 2;
  const Certification all = certify(std::vector<const Case*>{&moody, &picky}, options);
  EXPECT_TRUE(all.results.at(0).flaky());
  EXPECT_FALSE(all.results.at(1).flaky());
}

TEST(Rows, EveryCasePassesOnReferenceDevicesAtStrengthOne) {
  std::vector<const Case*> all;
  for (const Case& which : cases()) all.push_back(&which);
  CertifyOptions options = options_for(1);
  options.seed = 1;
  options.jobs = std::max(1U, std::thread::hardware_concurrency());
  const Certification made = certify(all, options);
  EXPECT_EQ(made.partial, "");
  std::size_t rows = 0;
  for (const CaseResult& result : made.results) {
    rows += std::max<std::size_t>(1, result.rows.size());
    EXPECT_FALSE(is_failure(result.judgment.verdict))
        << result.of->id() << " in row \"" << text_of_row(result.row) << "\": expected " << result.judgment.expected
        << ", got " << result.judgment.actual;
  }
  EXPECT_GT(rows, 4 * all.size());
}

}  // namespace
}  // namespace rdmawire::conformance
