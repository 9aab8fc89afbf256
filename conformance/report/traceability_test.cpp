#include "conformance/report/traceability.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace rdmawire::conformance {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

const Case& case_of(std::string_view id) {
  const Case* found = find_case(id);
  EXPECT_NE(found, nullptr);
  return *found;
}

CaseResult failed() {
  CaseResult result;
  result.of = &case_of("rc.responder.psn.sequence-error");
  result.judgment = {Verdict::fail, "silence", "a NAK"};
  result.transcript = {{Step::Kind::verbs, 0, "post_recv", {}}, {Step::Kind::sent, 1, "SEND", {1}},
                       {Step::Kind::received, 2, "ACK", {2}},   {Step::Kind::violation, 3, "two", {}},
                       {Step::Kind::received, 4, "ACK", {3}},   {Step::Kind::note, 5, "end", {}}};
  return result;
}

Report report_of(std::vector<CaseResult> results) {
  Report report;
  report.device = "lab:rxe";
  report.seed = 7;
  report.date = "2026-11-27";
  report.results = std::move(results);
  report.arguments = {"--device", "lab:rxe", "--modules", "it's here"};
  return report;
}

TEST(Traceability, EvidenceAreTheFramesOfViolations) {
  CaseResult result = failed();
  EXPECT_EQ(frames_of(result), 3U);
  EXPECT_THAT(evidence_of(result), ElementsAre(2));
  result.observed.violations.emplace_back().place.frame = 3;
  result.observed.violations.emplace_back().place.frame = 2;
  result.observed.violations.emplace_back().place.frame = 9;  // the capture has no such frame
  EXPECT_THAT(evidence_of(result), ElementsAre(2, 3));
  result.transcript.insert(result.transcript.begin(), {Step::Kind::violation, 0, "first", {}});
  EXPECT_THAT(evidence_of(result), ElementsAre(1, 2, 3));
}

TEST(Traceability, EveryRuleHasCasesOrAReason) {
  const auto matrix = traceability(report_of({failed()}));
  ASSERT_EQ(matrix["rules"].size(), rules.size());
  for (const auto& rule : matrix["rules"]) {
    EXPECT_FALSE(rule["clauses"].empty()) << rule["rule"];
    EXPECT_NE(rule["cases"].empty(), !rule.contains("not_tested")) << rule["rule"];
  }
  const auto find = [&](std::string_view id) {
    return *std::find_if(matrix["rules"].begin(), matrix["rules"].end(),
                         [&](const auto& one) { return one["rule"] == id; });
  };
  const auto row = find("rc.responder.psn.sequence-error")["cases"][0]["rows"][0];
  EXPECT_EQ(row["verdict"], "fail");
  EXPECT_EQ(row["assessment"], "unexpected");
  EXPECT_EQ(row["seed"], 7);
  EXPECT_EQ(row["frames"], 3);
  EXPECT_EQ(row["evidence"], nlohmann::json::array({2}));
  EXPECT_EQ(row["capture"], "captures/rc.responder.psn.sequence-error.pcapng");
  EXPECT_EQ(
      row["repeat"],
      "rdmawire certify --device lab:rxe --modules 'it'\\''s here' --only rc.responder.psn.sequence-error --seed 7");
  EXPECT_EQ(find(find_rule("MPA-008")->id)["not_tested"], "the device does not support this transport");
}

TEST(Traceability, RepeatCommandHasTheSeedOfTheWorstRun) {
  CaseResult result = failed();
  result.attempts = {{Verdict::pass, 7}, {Verdict::fail, 8}, {Verdict::fail, 9}};
  Report report = report_of({});
  EXPECT_THAT(repeat_command(result, report), HasSubstr("--seed 8"));
  report.arguments.reset();
  EXPECT_THAT(repeat_command(result, report), IsEmpty());
  report.arguments.emplace();
  result.judgment.verdict = Verdict::pass;
  EXPECT_THAT(repeat_command(result, report), IsEmpty());
}

TEST(Traceability, CsvHasOneRowForEachClauseAndCase) {
  const std::string csv = traceability_csv(report_of({failed()}));
  const Rule& rule = *find_rule("RSP-009");
  std::size_t rows = 0;
  for (std::size_t at = 0; (at = csv.find("\"rc.responder.psn.sequence-error\",\"RSP-009\"", at)) != std::string::npos;
       ++at)
    ++rows;
  EXPECT_EQ(rows, rule.clause_count());
  EXPECT_THAT(csv,
              HasSubstr("\"fail\",\"unexpected\",\"captures/rc.responder.psn.sequence-error.pcapng\",\"3\",\"2\""));
  std::size_t clauses = 0;
  for (const Rule& one : rules) clauses += one.clause_count();
  EXPECT_EQ(static_cast<std::size_t>(std::count(csv.begin(), csv.end(), '\n')), clauses + 1);
}

TEST(Traceability, WaiverOfAMonitorViolationIsStated) {
  const auto known = ExpectedResults::parse(
      R"({"format":1,"cases":{"RSP-009/as observed":{"verdict":"fail","reason":"two NAKs","until":"2026-11-27"}}})",
      "x", ResultsFile::waivers);
  ASSERT_TRUE(known);
  CaseResult result = failed();
  result.judgment = {};
  result.observed.violations.emplace_back().rule = static_cast<std::size_t>(find_rule("RSP-009") - rules.data());
  Report report = report_of({result});
  report.date = "2026-11-27";
  EXPECT_EQ(disposition_of(result, report), Disposition::unexpected);
  EXPECT_EQ(remark_of(result, report), "monitors observe a violation of RSP-009");
  report.expected = &*known;
  EXPECT_EQ(disposition_of(result, report), Disposition::waived);
  EXPECT_EQ(remark_of(result, report), "RSP-009 as observed: waived until 2026-11-27: two NAKs");
  EXPECT_THAT(to_junit(report), HasSubstr("<skipped message=\"pass, RSP-009 as observed: waived until 2026-11-27"));
  EXPECT_THAT(to_junit(report), testing::Not(HasSubstr("<failure")));
  EXPECT_THAT(summary(report), HasSubstr("waivers: 1 result waived, 0 with"));
  report.date = "2026-11-28";
  EXPECT_EQ(disposition_of(result, report), Disposition::expired);
  EXPECT_THAT(remark_of(result, report), HasSubstr("waived until 2026-11-27: two NAKs"));
  EXPECT_THAT(to_junit(report), HasSubstr("<failure"));
  EXPECT_THAT(summary(report), HasSubstr("1 UNEXPECTED"));
  // The waiver does not cover a failure of the case.
  report.date = "2026-11-27";
  const CaseResult failing = failed();
  EXPECT_EQ(disposition_of(failing, report), Disposition::unexpected);
}

TEST(Traceability, DispositionFollowsWaivers) {
  const auto known = ExpectedResults::parse(
      R"({"format":1,"cases":{"RSP-009":{"verdict":"fail","reason":"two NAKs","until":"2026-11-27"}}})", "x");
  ASSERT_TRUE(known);
  const CaseResult result = failed();
  Report report = report_of({});
  EXPECT_EQ(disposition_of(result, report), Disposition::unexpected);
  report.expected = &*known;
  EXPECT_EQ(disposition_of(result, report), Disposition::waived);
  EXPECT_EQ(remark_of(result, report), "waived until 2026-11-27: two NAKs");
  report.date = "2026-11-28";
  EXPECT_EQ(disposition_of(result, report), Disposition::expired);
  EXPECT_EQ(remark_of(result, report), "waived until 2026-11-27: two NAKs");
}

}  // namespace
}  // namespace rdmawire::conformance
