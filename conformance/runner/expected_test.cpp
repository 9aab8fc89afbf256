#include "conformance/runner/expected.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <fstream>

namespace rdmawire::conformance {
namespace {

void nothing(Bench&) {}
constexpr Case gap{.rule = "rc.responder.psn.sequence-error", .run = nothing};
using ::testing::MatchesRegex;
using ::testing::StartsWith;

constexpr const char* today = "2026-11-21";

CaseResult ended(Verdict verdict, std::string actual = {}) {
  CaseResult result;
  result.of = &gap;
  result.judgment = {verdict, {}, std::move(actual)};
  return result;
}

TEST(ExpectedResults, UnknownFailureIsUnexpected) {
  const ExpectedResults none;
  EXPECT_TRUE(none.expects(ended(Verdict::pass), today));
  EXPECT_TRUE(none.expects(ended(Verdict::unsupported), today));
  EXPECT_FALSE(none.expects(ended(Verdict::fail), today));
  EXPECT_FALSE(none.expects(ended(Verdict::fail_wrong_code), today));
  EXPECT_FALSE(none.expects(ended(Verdict::error), today));
}

TEST(ExpectedResults, PassOfKnownFailureIsUnexpected) {
  const auto known = ExpectedResults::parse(
      R"({"format":1,"cases":{"RSP-009":{"verdict":"fail","reason":"two NAKs","right":"specification"}}})", "x");
  ASSERT_TRUE(known) << known.error();
  EXPECT_TRUE(known->expects(ended(Verdict::fail), today));
  EXPECT_FALSE(known->expects(ended(Verdict::pass), today));
  EXPECT_FALSE(known->expects(ended(Verdict::fail_wrong_code), today));
  EXPECT_EQ(known->find(gap, today)->reason, "two NAKs");
}

TEST(ExpectedResults, AlternativeVerdictIsExpected) {
  const auto known = ExpectedResults::parse(
      R"({"format":1,"cases":{"RSP-009":{"verdict":"fail","or":"inconclusive","reason":"two NAKs"}}})", "x");
  ASSERT_TRUE(known) << known.error();
  EXPECT_TRUE(known->expects(ended(Verdict::fail), today));
  EXPECT_TRUE(known->expects(ended(Verdict::inconclusive), today));
  EXPECT_FALSE(known->expects(ended(Verdict::pass), today));
}

TEST(ExpectedResults, SkippedCaseIsNeverUnexpected) {
  const auto known =
      ExpectedResults::parse(R"({"format":1,"cases":{"RSP-009":{"verdict":"fail","reason":"two NAKs"}}})", "x");
  ASSERT_TRUE(known) << known.error();
  CaseResult result = ended(Verdict::inconclusive);
  EXPECT_FALSE(known->expects(result, today));
  result.left_out = true;
  EXPECT_TRUE(known->expects(result, today));
}

TEST(ExpectedResults, UserFileOverridesBuiltInResults) {
  const auto parse = [](const std::string& key, const std::string& verdict) {
    return *ExpectedResults::parse(
        R"({"format":1,"cases":{")" + key + R"(":{"verdict":")" + verdict + R"(","reason":"it was seen"}}})", "x");
  };
  ExpectedResults known = parse("RSP-009", "fail-wrong-code");  // for the whole rule
  known.add_below(parse("rc.responder.psn.sequence-error", "fail"));
  EXPECT_TRUE(known.expects(ended(Verdict::fail_wrong_code), today));
  EXPECT_FALSE(known.expects(ended(Verdict::fail), today));
  EXPECT_EQ(known.size(), 2U);
  ExpectedResults other = parse("RSP-010", "fail");
  other.add_below(parse("RSP-009", "fail"));
  EXPECT_TRUE(other.expects(ended(Verdict::fail), today));
}

TEST(ExpectedResults, WaiverExpires) {
  const auto known = ExpectedResults::parse(
      R"({"format":1,"cases":{"rc.responder.psn.sequence-error":
          {"verdict":"fail","reason":"being recomputed","until":"2026-12-31"}}})",
      "x");
  ASSERT_TRUE(known) << known.error();
  EXPECT_TRUE(known->expects(ended(Verdict::fail), today));
  EXPECT_FALSE(known->expects(ended(Verdict::fail), "2027-01-01"));
  EXPECT_EQ(known->expired(gap, today), nullptr);
  EXPECT_EQ(known->find(gap, "2027-01-01"), nullptr);
  ASSERT_NE(known->expired(gap, "2027-01-01"), nullptr);
  EXPECT_EQ(known->expired(gap, "2027-01-01")->reason, "being recomputed");
}

TEST(ExpectedResults, ShouldRuleFailureIsUnexpectedOnlyIfStrict) {
  static constexpr Case should{.rule = "roce.sender.udp.checksum-zero", .run = nothing};
  CaseResult result = ended(Verdict::fail);
  result.of = &should;
  const ExpectedResults none;
  EXPECT_TRUE(none.expects(result, today));
  EXPECT_FALSE(none.expects(result, today, true));
  result.judgment.verdict = Verdict::error;
  EXPECT_FALSE(none.expects(result, today)) << "an error of the tester is never expected";
}

TEST(ExpectedResults, UnknownMonitorViolationIsUnexpected) {
  const std::size_t rule = RuleId("rc.responder.ack.asked-for-once").index();
  CaseResult result = ended(Verdict::pass);
  result.observed.violations.emplace_back().rule = rule;
  result.observed.counters[rule].violated = 1;
  EXPECT_FALSE(ExpectedResults().expects(result, today));
  const auto known = ExpectedResults::parse(
      R"({"format":1,"cases":{"RSP-003/as observed":{"verdict":"fail","reason":"it acknowledges twice"}}})", "x");
  ASSERT_TRUE(known) << known.error();
  EXPECT_TRUE(known->expects(result, today));
  EXPECT_TRUE(known->held_unexpectedly({&result, 1}, today).empty());
  result.observed = {};
  EXPECT_TRUE(known->held_unexpectedly({&result, 1}, today).empty()) << "the rule was not exercised";
  result.observed.counters[rule].passed = 1;
  EXPECT_EQ(known->held_unexpectedly({&result, 1}, today), (std::vector{&rules[rule]}));
}

TEST(ExpectedResults, MalformedFileIsReported) {
  const auto error = [](const std::string& text) {
    const auto parsed = ExpectedResults::parse(text, "known.json");
    return parsed ? std::string() : parsed.error();
  };
  EXPECT_THAT(error("{\n  5"), MatchesRegex("known.json: line 2: invalid JSON: .*object key.*"));
  EXPECT_EQ(error("[1e999]"), "known.json: invalid JSON: number overflow parsing '1e999'");
  EXPECT_EQ(error("[]"), "known.json: must be an object");
  EXPECT_EQ(error(R"({"format":1})"), "known.json: missing object \"cases\"");
  EXPECT_EQ(error("{\"format\":1,\n\"cases\":{\n\"RSP-0009\":{}}}"),
            "known.json: line 3: RSP-0009: unknown case or rule; did you mean RSP-009?");
  EXPECT_THAT(error(R"({"format":1,"cases":{"RSP-009":{"verdict":"bad"}}})"),
              StartsWith("known.json: line 1: RSP-009: invalid \"verdict\": \"bad\"; expected one of pass, "));
  EXPECT_EQ(error("{\"format\":1,\"cases\":{\"RSP-008\":{\"verdict\":\"fail\",\"reason\":\n\"RSP-009\"},\n"
                  "\"RSP-009\" : {\"verdict\":\"fail\"}}}"),
            "known.json: line 3: RSP-009: missing \"reason\"");
  EXPECT_THAT(error(R"({"format":1,"cases":{"RSP-009":{"verdict":"fail","or":"maybe","reason":"r"}}})"),
              StartsWith("known.json: line 1: RSP-009: invalid \"or\": \"maybe\""));
  EXPECT_EQ(ExpectedResults::read("/no/such.json").error(),
            "/no/such.json: could not be read: No such file or directory");
}

TEST(ExpectedResults, ErrorNamesTheCauseAndTheLineOfTheMember) {
  const auto error = [](const std::string& text) { return ExpectedResults::parse(text, "w.json").error(); };
  EXPECT_EQ(error("{\n\"format\":2,\"cases\":{}}"), "w.json: line 2: \"format\" must be 1");
  EXPECT_EQ(error("{\"format\":1,\"cases\":{\"RSP-009\":{\"verdict\":\"fail\",\"reason\":\"\"}}}"),
            "w.json: line 1: RSP-009: \"reason\" must not be empty");
  EXPECT_EQ(
      error("{\"format\":1,\"cases\":{\n\"RSP-009\":{\"verdict\":\"fail\",\"reason\":\"r\",\n\n\"until\":\"soon\"}}}"),
      "w.json: line 4: RSP-009: invalid \"until\": \"soon\"; expected a date YYYY-MM-DD");
}

TEST(ExpectedResults, UnknownMembersAndDatesAreErrors) {
  const auto error = [](const std::string& entry, ResultsFile file = ResultsFile::expected) {
    const auto parsed =
        ExpectedResults::parse("{\"format\":1,\n\"cases\":{\n\"RSP-009\":{" + entry + "}}}", "w.json", file);
    return parsed ? std::string() : parsed.error();
  };
  const std::string good = R"("verdict":"fail","reason":"r")";
  EXPECT_EQ(error(good + R"(,"untill":"2027-01-01")"),
            "w.json: line 3: RSP-009: unknown member \"untill\"; did you mean until?");
  EXPECT_EQ(error(good + R"(,"until":20270101)"), "w.json: line 3: RSP-009: \"until\" must be a string");
  EXPECT_EQ(error(good + R"(,"until":"2027-02-29")"),
            "w.json: line 3: RSP-009: invalid \"until\": \"2027-02-29\"; expected a date YYYY-MM-DD");
  EXPECT_EQ(error(good), "");
  EXPECT_EQ(error(good, ResultsFile::waivers),
            "w.json: line 3: RSP-009: missing \"until\": a waiver requires an end date");
  EXPECT_EQ(error(good + R"(,"until":"2028-02-29","approved_by":"J. Doe")", ResultsFile::waivers), "");
}

TEST(ExpectedResults, PassOfWaivedFailureIsExpected) {
  const auto waivers = ExpectedResults::parse(
      R"({"format":1,"cases":{"RSP-009":{"verdict":"fail","reason":"two NAKs","until":"2026-12-31"}}})", "x",
      ResultsFile::waivers);
  ASSERT_TRUE(waivers) << waivers.error();
  EXPECT_TRUE(waivers->expects(ended(Verdict::fail), today));
  EXPECT_TRUE(waivers->expects(ended(Verdict::pass), today));
  EXPECT_FALSE(waivers->expects(ended(Verdict::fail_wrong_code), today));
  EXPECT_FALSE(waivers->expects(ended(Verdict::fail), "2027-01-01"));
  EXPECT_TRUE(waivers->expects(ended(Verdict::pass), "2027-01-01"));
}

}  // namespace
}  // namespace rdmawire::conformance
