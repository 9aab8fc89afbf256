#include "conformance/report/assessment.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <fstream>

namespace rdmawire::conformance {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using Kind = AssessmentError::Kind;

/// Records notifications.
class Hears final : public AssessmentListener {
 public:
  void opened(Target&) override { said.emplace_back("opened"); }
  void begins(std::span<const Case* const> cases, const Report& report) override {
    said.push_back("begins with " + std::to_string(cases.size()) + " on " + report.device);
  }
  void took(const CaseResult& result, bool earlier) override {
    said.push_back((earlier ? "earlier " : "now ") + std::string(result.of->rule->alias) + " " +
                   std::string(to_string(result.judgment.verdict)));
  }
  void ended() override { said.emplace_back("ended"); }
  std::vector<std::string> said;
};

class AssessmentTest : public testing::Test {
 protected:
  AssessmentTest()
      : directory_(std::filesystem::path(testing::TempDir()) / ("assessment_test." + std::to_string(::getpid()))) {}
  ~AssessmentTest() override { std::filesystem::remove_all(directory_); }

  static AssessmentOptions of(const std::vector<std::string>& patterns) {
    AssessmentOptions options;
    options.seed = 1;
    options.jobs = 1;
    for (const Case& which : cases())
      if (is_chosen(which, patterns)) options.cases.push_back(&which);
    return options;
  }
  AssessmentError error_of(AssessmentOptions options) {
    const auto made = Assessment::run(std::move(options), hears_);
    return made ? AssessmentError{} : made.error();
  }

  Hears hears_;
  const std::filesystem::path directory_;
};

TEST_F(AssessmentTest, RunsCasesAndWritesReports) {
  AssessmentOptions options = of({"RSP-009"});
  options.report = directory_;
  options.target.faults = {"naks-every-packet"};
  const auto made = Assessment::run(std::move(options), hears_);
  ASSERT_TRUE(made) << made.error().message;
  const Assessment& it = **made;
  ASSERT_THAT(it.report.results, testing::SizeIs(1));
  EXPECT_THAT(it.unexpected, ElementsAre(it.report.results[0].of));
  EXPECT_TRUE(it.is_unexpected());
  EXPECT_THAT(it.troubles, IsEmpty());
  EXPECT_EQ(it.report.seed, 1U);
  EXPECT_THAT(hears_.said, ElementsAre("begins with 1 on reference", "now RSP-009 fail", "ended"));
  for (const char* name : {"report.json", "junit.xml", "index.html", "results.ndjson"})
    EXPECT_TRUE(std::filesystem::exists(directory_ / name)) << name;
}

TEST_F(AssessmentTest, ResumesInterruptedRun) {
  AssessmentOptions first = of({"RSP-009", "RSP-010"});
  first.report = directory_;
  first.seed = 77;
  ASSERT_TRUE(Assessment::run(std::move(first), hears_));
  hears_.said.clear();
  std::string head, result;
  std::ifstream journal(directory_ / "results.ndjson");
  ASSERT_TRUE(std::getline(journal, head) && std::getline(journal, result));
  journal.close();
  std::ofstream(directory_ / "results.ndjson") << head << '\n' << result << '\n';
  AssessmentOptions second = of({"RSP-009", "RSP-010"});
  second.resume = directory_;
  second.seed = 0;  // the seed of the first run
  const std::size_t all = second.cases.size();
  ASSERT_GT(all, 1U);
  const auto made = Assessment::run(std::move(second), hears_);
  ASSERT_TRUE(made) << made.error().message;
  EXPECT_EQ((*made)->report.seed, 77U);
  EXPECT_EQ((*made)->report.results.size(), all);
  EXPECT_EQ(hears_.said[1], "earlier RSP-009 pass");
  EXPECT_THAT(hears_.said[2], HasSubstr("now RSP-010"));
  AssessmentOptions other = of({"RSP-009", "RSP-010"});
  other.resume = directory_;
  other.seed = 0;
  other.target.faults = {"naks-every-packet"};
  EXPECT_THAT(error_of(std::move(other)).message, HasSubstr("cannot resume: faults"));
  AssessmentOptions less = of({"RSP-009"});
  less.resume = directory_;
  less.seed = 0;
  EXPECT_THAT(error_of(std::move(less)).message, HasSubstr("cannot resume: that run selects"));
  AssessmentOptions both = of({"RSP-009"});
  both.report = both.resume = directory_;
  EXPECT_EQ(error_of(std::move(both)).kind, Kind::usage);
}

TEST_F(AssessmentTest, GivenDeviceIsNotOpened) {
  AssessmentOptions options = of({"RSP-009"});
  auto target = Target::open({.seed = 3});
  ASSERT_TRUE(target);
  options.given = std::move(*target);
  options.open = [](const TargetOptions&) -> tl::expected<std::unique_ptr<Target>, TargetError> {
    ADD_FAILURE() << "opened";
    return tl::unexpected(TargetError{});
  };
  const auto made = Assessment::run(std::move(options), hears_);
  ASSERT_TRUE(made) << made.error().message;
  EXPECT_FALSE((*made)->is_unexpected());
  EXPECT_EQ(hears_.said.front(), "opened");
}

TEST_F(AssessmentTest, InvalidOptionsAreRejectedBeforeTheRun) {
  EXPECT_EQ(error_of(of({"no such rule"})).message, "no test case matches; list all cases with --list");
  AssessmentOptions fault = of({"RSP-009"});
  fault.target.faults = {"nonsense"};
  EXPECT_EQ(error_of(std::move(fault)).message, "unknown fault \"nonsense\"");
  AssessmentOptions baseline = of({"RSP-009"});
  baseline.baseline = directory_ / "none.json";
  EXPECT_THAT(error_of(std::move(baseline)).message, HasSubstr("none.json"));
  AssessmentOptions expected = of({"RSP-009"});
  expected.expected = directory_ / "none.json";
  EXPECT_EQ(error_of(std::move(expected)).kind, Kind::usage);
  AssessmentOptions bench = of({"RSP-009"});
  bench.target.device = "agent:tcp:127.0.0.1:1";
  bench.jobs = 2;
  EXPECT_THAT(error_of(std::move(bench)).message, HasSubstr("jobs must be 1"));
  AssessmentOptions unreachable = of({"RSP-009"});
  unreachable.open = [](const TargetOptions&) -> tl::expected<std::unique_ptr<Target>, TargetError> {
    return tl::unexpected(TargetError{false, "nobody answers"});
  };
  const AssessmentError found = error_of(std::move(unreachable));
  EXPECT_EQ(found.kind, Kind::device);
  EXPECT_EQ(found.message, "nobody answers");
  std::ofstream(directory_.string()) << "a file";
  AssessmentOptions nowhere = of({"RSP-009"});
  nowhere.report = directory_;
  EXPECT_EQ(error_of(std::move(nowhere)).kind, Kind::file);
  EXPECT_THAT(hears_.said, IsEmpty());
}

}  // namespace
}  // namespace rdmawire::conformance
