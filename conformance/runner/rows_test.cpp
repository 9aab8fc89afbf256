/// Rows of the environment of a case.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdlib>
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
void is_counted(Bench& bench) {
  static_cast<void>(bench.rc());
  ++calls;
}
constexpr Case counted{.rule = rule, .variant = "counted", .run = is_counted};
constexpr Case counted_too{.rule = rule, .variant = "counted, too", .run = is_counted};

TEST(Rows, BudgetRunReportsEachCaseOnceAndItsFirstRowEarly) {
  calls = 0;
  CertifyOptions options = options_for(1);
  options.budget = 1h;
  std::size_t ends = 0, checkpoints = 0;
  options.on_end = [&](const CaseResult&) { ++ends; };
  options.on_checkpoint = [&](const CaseResult& result) {
    EXPECT_EQ(ends, 0U) << "before the end of the run";
    checkpoints += result.judgment.verdict == Verdict::pass ? 1 : 0;
  };
  const Certification all = certify(std::vector<const Case*>{&counted, &counted_too}, options);
  ASSERT_EQ(all.results.size(), 2U);
  EXPECT_EQ(ends, 2U);
  EXPECT_EQ(checkpoints, 2U);
  EXPECT_EQ(all.partial, "");
  EXPECT_EQ(all.results[0].rows.size(), all.results[1].rows.size());
  EXPECT_EQ(all.results[0].rows.size() + all.results[1].rows.size(), static_cast<std::size_t>(calls));
}

TEST(Rows, FirstFailedRowIsACheckpoint) {
  CertifyOptions options = options_for(2);
  options.budget = 1h;
  std::vector<Verdict> checkpoints;
  options.on_checkpoint = [&](const CaseResult& result) { checkpoints.push_back(result.judgment.verdict); };
  static_cast<void>(certify(std::vector<const Case*>{&picky}, options));
  EXPECT_EQ(checkpoints, (std::vector{Verdict::pass, Verdict::fail}));
}

TEST(Rows, BudgetBelowOneRunOfEachCaseIsReported) {
  CertifyOptions options = options_for(1);
  options.budget = 1ms;
  std::vector<const Case*> all(200, &counted);
  EXPECT_THAT(certify(all, options).partial, HasSubstr("spent before each case ran once"));
}

/// A pipe whose first end becomes readable when stop() is called.
class Stop {
 public:
  Stop() { EXPECT_EQ(::pipe(ends_.data()), 0); }
  ~Stop() {
    for (const int end : ends_) ::close(end);
  }
  Stop(const Stop&) = delete;
  Stop& operator=(const Stop&) = delete;
  [[nodiscard]] int end() const { return ends_[0]; }
  void stop() const { EXPECT_EQ(::write(ends_[1], "x", 1), 1); }

 private:
  std::array<int, 2> ends_{};
};

const Stop* current_stop = nullptr;
void stops_in_third_row(Bench& bench) {
  static_cast<void>(bench.rc());
  if (++calls == 3) current_stop->stop();
  bench.require(calls != 2, "another call", "the second call");
}
constexpr Case stops{.rule = rule, .variant = "stops", .run = stops_in_third_row};

void interrupted_after_third_row(bool budget) {
  calls = 0;
  const Stop stop;
  current_stop = &stop;
  CertifyOptions options = options_for(1);
  options.jobs = 1;
  options.stop = stop.end();
  if (budget) options.budget = 1h;
  std::size_t ends = 0, interrupted = 0;
  options.on_end = [&](const CaseResult&) { ++ends; };
  options.on_interrupted = [&](const CaseResult&) { ++interrupted; };
  const Certification all = certify(std::vector<const Case*>{&stops}, options);
  ASSERT_EQ(all.results.size(), 1U);
  EXPECT_EQ(all.results[0].judgment.verdict, Verdict::fail) << "the failure of the second row is kept";
  EXPECT_GE(all.results[0].rows.size(), 2U);
  EXPECT_EQ(all.partial, "some rows of 1 of 1 cases did not run: interrupted");
  EXPECT_EQ(ends, 0U) << "--resume runs the case again";
  EXPECT_EQ(interrupted, 1U);
}

TEST(Rows, InterruptedCaseKeepsItsRowsAndMakesTheRunPartial) { interrupted_after_third_row(false); }
TEST(Rows, InterruptedBudgetRunIsPartial) { interrupted_after_third_row(true); }

TEST(Rows, UnusedValuesAreNotInTheResult) {
  CertifyOptions options = options_for(0);
  options.row = parse_row("path MTU=256,device PSN=2^23 - 1").value();
  const CaseResult result = certify(std::vector<const Case*>{&picky}, options).results.at(0);
  EXPECT_EQ(text_of_row(result.row), "path MTU=256");
  const auto has_note = [](const Step& step) {
    return step.text.find("device PSN=2^23 - 1 has no effect on this case") != std::string::npos;
  };
  EXPECT_TRUE(std::any_of(result.transcript.begin(), result.transcript.end(), has_note));
}

TEST(Rows, ViolationsOfAllRowsAreKept) {
  CaseResult all, row;
  all.of = row.of = &simple;
  all.judgment.verdict = Verdict::fail;
  all.observed.violations.emplace_back().rule = 1;
  row.observed.violations.emplace_back().rule = 1;
  row.observed.violations.emplace_back().rule = 2;
  row.observed.violations.back().place.frame = 7;
  row.wire.push_back({.rule = rule, .expected = "a", .actual = "b"});
  add_row(all, row);
  ASSERT_EQ(all.observed.violations.size(), 2U);
  EXPECT_EQ(all.observed.violations[1].rule, 2U);
  EXPECT_EQ(all.observed.violations[1].place.frame, 0U) << "the frame is in the capture of another row";
  EXPECT_EQ(all.wire.size(), 1U);
}

TEST(EnvironmentRows, ContainOnlyHarmlessPrivateData) {
  for (const std::string_view value : info_of(Parameter::private_data).values)
    EXPECT_LE(std::stoi(std::string(value)), 64);
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
  // A sample by default, because all cases need minutes with sanitizers.
  const std::size_t interval = std::getenv("RDMAWIRE_WHOLE") ? 1 : 14;
  std::vector<const Case*> all;
  for (std::size_t i = 0; i < cases().size(); i += interval) all.push_back(&cases()[i]);
  for (const Family family : {Family::infiniband, Family::iwarp})
    EXPECT_TRUE(std::ranges::any_of(all, [&](const Case* one) { return one->family() == family; }));
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
