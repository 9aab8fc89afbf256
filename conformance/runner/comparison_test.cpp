#include "conformance/runner/comparison.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <fstream>

namespace rdmawire::conformance {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

void nothing(Bench&) {}
constexpr Case gap{.rule = "rc.responder.psn.sequence-error", .run = nothing};

CaseResult ended(Verdict verdict, std::string actual = {}) {
  CaseResult result;
  result.of = &gap;
  result.judgment = {verdict, {}, std::move(actual)};
  return result;
}

TEST(Compare, NewMonitorViolationIsARegression) {
  const auto one = [](const char* verdict, std::vector<std::string> observed) {
    Outcome outcome{"rc.responder.rnr.then-executed-once/WRITE after the SEND", verdict};
    outcome.observed = std::move(observed);
    return std::vector{outcome};
  };
  const auto changes = compare(one("pass", {"a"}), one("pass", {"b", "a", "b"}));
  ASSERT_THAT(changes, SizeIs(1));
  EXPECT_EQ(changes[0].kind, Change::Kind::worse);
  EXPECT_TRUE(changes[0].is_regression());
  EXPECT_EQ(changes[0].observed, std::vector<std::string>{"b"});
  EXPECT_EQ(compare(one("pass", {"a"}), one("pass", {}))[0].kind, Change::Kind::better);
  EXPECT_THAT(compare(one("pass", {"a"}), one("pass", {"a"})), IsEmpty());
  EXPECT_EQ(compare(one("fail", {}), one("fail", {"b"}))[0].kind, Change::Kind::worse);
  EXPECT_EQ(compare(one("fail", {}), one("pass", {"b"}))[0].kind, Change::Kind::worse);
  // A failed case violates its rule, with or without a monitor.
  EXPECT_EQ(compare(one("fail", {}), one("pass", {"rc.responder.rnr.then-executed-once"}))[0].kind,
            Change::Kind::better);
  auto waived = one("pass", {"b"});
  waived[0].waived = true;
  EXPECT_FALSE(compare(one("pass", {}), waived)[0].is_regression());
  EXPECT_FALSE(compare(one("unsupported", {}), waived)[0].is_regression());
  waived[0].verdict = "unsupported";
  EXPECT_TRUE(compare(one("pass", {}), waived)[0].is_regression()) << "the waiver does not cover the verdict";
  waived[0].verdict_waived = true;
  EXPECT_FALSE(compare(one("pass", {}), waived)[0].is_regression());
  EXPECT_TRUE(compare({}, one("pass", {"b"}))[0].is_regression());
  EXPECT_FALSE(compare({}, one("pass", {}))[0].is_regression());
  const auto error = [](const std::string& observed) {
    const auto parsed = parse_outcomes(R"({"cases":[{"id":"a","verdict":"pass","observed":)" + observed + "}]}", "r");
    return parsed ? std::string() : parsed.error();
  };
  EXPECT_EQ(error(R"([{"rule":"b"}])"), "");
  EXPECT_EQ(error("5"), "r: case a: \"observed\" must be a list");
  EXPECT_EQ(error("[5]"), "r: case a: observed: \"rule\" must be a string");
}

TEST(Compare, ListsChangedVerdictsAndReasons) {
  const auto path = std::filesystem::path(testing::TempDir()) / ("compare." + std::to_string(::getpid()) + ".json");
  const auto changes = [&](const std::string& before, const CaseResult& after) {
    std::ofstream(path) << before;
    return compare(path, std::span(&after, 1));
  };
  const std::string passed = R"({"cases":[{"id":"rc.responder.psn.sequence-error","verdict":"pass"}]})";
  const std::string failed =
      R"({"cases":[{"id":"rc.responder.psn.sequence-error","verdict":"fail","actual":"silence"}]})";
  EXPECT_TRUE(changes(passed, ended(Verdict::pass))->empty());
  EXPECT_EQ(changes(passed, ended(Verdict::fail))->front().kind, Change::Kind::worse);
  EXPECT_EQ(changes(failed, ended(Verdict::pass))->front().kind, Change::Kind::better);
  EXPECT_TRUE(changes(failed, ended(Verdict::fail, "silence"))->empty());
  EXPECT_EQ(changes(failed, ended(Verdict::fail, "an ACK"))->front().kind, Change::Kind::other_reason);
  EXPECT_EQ(changes(R"({"cases":[]})", ended(Verdict::pass))->front().kind, Change::Kind::appeared);
  const auto two = changes(R"({"cases":[{"id":"gone","verdict":"pass"}]})", ended(Verdict::pass));
  ASSERT_EQ(two->size(), 2U);
  EXPECT_EQ(two->back().kind, Change::Kind::gone);
  EXPECT_FALSE(changes("{}", ended(Verdict::pass)));
  std::filesystem::remove(path);
}

Change::Kind kind_of(const std::string& before, const std::string& after) {
  const Outcome was{"a", before}, is{"a", after};
  const auto changes = compare(std::span(&was, 1), std::span(&is, 1));
  EXPECT_THAT(changes, SizeIs(1)) << before << " " << after;
  return changes.front().kind;
}

TEST(Compare, MissingResultInPlaceOfAPassIsWorse) {
  using Kind = Change::Kind;
  EXPECT_EQ(kind_of("pass", "unsupported"), Kind::worse);
  EXPECT_EQ(kind_of("pass", "inconclusive"), Kind::worse);
  EXPECT_EQ(kind_of("inconclusive", "fail"), Kind::worse);
  EXPECT_EQ(kind_of("error", "unsupported"), Kind::better);
  EXPECT_EQ(kind_of("unsupported", "may"), Kind::better);
  EXPECT_EQ(kind_of("pass", "may"), Kind::other_reason);
  EXPECT_EQ(kind_of("error", "fail"), Kind::other_reason);
}

TEST(Compare, SlowerExceedsFactorAndDuration) {
  const auto slower = [](std::int64_t before, std::int64_t after) {
    const Outcome was{"a", "pass", "", before}, is{"a", "pass", "", after};
    return !compare(std::span(&was, 1), std::span(&is, 1), SlowerLimits{.factor = 2, .nanoseconds = 1000}).empty();
  };
  EXPECT_TRUE(slower(1000, 2000));
  EXPECT_FALSE(slower(1000, 1999)) << "less than 1000 ns more";
  EXPECT_FALSE(slower(5000, 9999)) << "less than twice";
  EXPECT_TRUE(slower(0, 1000));
  EXPECT_FALSE(slower(2000, 1000));
  const Outcome was{"a", "pass", "", 1}, is{"a", "pass", "", 1'000'000'000};
  EXPECT_THAT(compare(std::span(&was, 1), std::span(&is, 1)), IsEmpty()) << "durations are ignored without limits";
}

TEST(Compare, WaivedResultIsNoRegression) {
  const Outcome passed{"a", "pass"};
  Outcome failed{"a", "fail"};
  EXPECT_TRUE(compare(std::span(&passed, 1), std::span(&failed, 1)).front().is_regression());
  EXPECT_TRUE(compare({}, std::span(&failed, 1)).front().is_regression());
  EXPECT_FALSE(compare({}, std::span(&passed, 1)).front().is_regression());
  EXPECT_TRUE(compare(std::span(&passed, 1), {}).front().is_regression());
  EXPECT_FALSE(compare(std::span(&failed, 1), std::span(&passed, 1)).front().is_regression());
  failed.waived = true;
  EXPECT_FALSE(compare(std::span(&passed, 1), std::span(&failed, 1)).front().is_regression());
  EXPECT_FALSE(compare({}, std::span(&failed, 1)).front().is_regression());
}

TEST(Compare, MalformedReportIsReported) {
  const auto error = [](const std::string& text) {
    const auto parsed = parse_outcomes(text, "r");
    return parsed ? std::string() : parsed.error();
  };
  EXPECT_THAT(error("{"), HasSubstr("r: line 1: invalid JSON"));
  EXPECT_EQ(error("[]"), "r: not a report of a run: \"cases\" is missing");
  EXPECT_EQ(error(R"({"cases":[5]})"), "r: case 1: \"id\" and \"verdict\" must be strings");
  EXPECT_EQ(error(R"({"cases":[{"id":"a","verdict":"good"}]})"), "r: case a: unknown verdict \"good\"");
  EXPECT_EQ(error(R"({"cases":[{"id":"a","verdict":"pass"},{"id":"a","verdict":"pass"}]})"),
            "r: case a: is listed twice");
  EXPECT_THAT(error(R"({"cases":[{"id":"a","verdict":"pass","duration_ns":-1}]})"),
              HasSubstr("r: case a: \"duration_ns\" must be a whole number of at most"));
  EXPECT_THAT(error(R"({"cases":[{"id":"a","verdict":"pass","duration_ns":18446744073709551615}]})"),
              HasSubstr("at most"));
  EXPECT_EQ(error(R"({"cases":[],"seed":"1"})").substr(0, 34), "r: \"seed\" must be a whole number o");
  EXPECT_EQ(error(R"({"cases":[{"id":"a","verdict":"pass","unexpected":1}]})"),
            "r: case a: \"unexpected\" must be true or false");
  EXPECT_EQ(error(R"({"cases":[]})"), "");
}

}  // namespace
}  // namespace rdmawire::conformance
