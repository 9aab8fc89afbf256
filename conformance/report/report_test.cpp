#include "conformance/report/report.hpp"

#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>

#include "captures/io/reader.hpp"
#include "conformance/monitors/monitored.hpp"
#include "dissectors/protocol/infiniband.hpp"

namespace rdmawire::conformance {
namespace {

void nothing(Bench&) {}
constexpr Case gap{.rule = "rc.responder.psn.sequence-error", .variant = "two <missing>", .run = nothing};
constexpr Case wrap{.rule = "rc.responder.psn.wraps", .run = nothing};

/// A report with a failed case, which has a frame in each direction, and an unsupported case.
Report a_report() {
  const std::vector<std::uint8_t> ours(60, 0x11), theirs(62, 0x22);
  CaseResult failed;
  failed.of = &gap;
  failed.judgment = {Verdict::fail_wrong_code, "NAK PSN sequence error, PSN +0", "NAK invalid request, PSN +0"};
  failed.seed = 7;
  failed.nanoseconds = 1'500'000;
  failed.observed.counters[RuleId("rc.responder.ack.in-order").index()].passed = 2;
  failed.transcript = {{Step::Kind::verbs, 1000, "a queue pair", {}},
                       {Step::Kind::sent, 2000, "RC SEND Only, PSN +1", ours},
                       {Step::Kind::received, 3000, "NAK invalid request, PSN +0", theirs},
                       {Step::Kind::violation, 3500, "expected NAK PSN sequence error", {}}};
  CaseResult lacking;
  lacking.of = &wrap;
  lacking.judgment = {Verdict::unsupported, "", "the device has no queue pairs"};
  return {.device = "a <device>",
          .details = "of a test",
          .seed = 7,
          .nanoseconds = 2'000'000'000,
          .results = {failed, lacking}};
}

TEST(Report, TextShowsVerdictReferenceAndActual) {
  const Report report = a_report();
  EXPECT_EQ(text_of(report.results[0], false),
            "fail-wrong-code  RSP-009   rc.responder.psn.sequence-error/two <missing>\n"
            "    reference " +
                clauses_of(*gap.rule) +
                "\n"
                "    expected  NAK PSN sequence error, PSN +0\n"
                "    actual    NAK invalid request, PSN +0\n");
  EXPECT_EQ(text_of(report.results[1], true),
            "unsupported      RSP-011   rc.responder.psn.wraps\n"
            "    because   the device has no queue pairs\n");
  EXPECT_EQ(summary(report),
            "2 cases in 2.0 s (wire clock): 1 fail-wrong-code, 1 unsupported; 1 UNEXPECTED; a <device>, seed 7\n"
            "monitors: 1 rules passed, 0 violated, 0 inconclusive, " +
                std::to_string(report.watched().size() - 1) + " not exercised; 0 only confirmed\n");
}

TEST(Report, JsonHasCasesVerdictsAndRules) {
  const auto json = to_json(a_report());
  EXPECT_EQ(json["verdicts"]["fail-wrong-code"], 1);
  EXPECT_EQ(json["cases"][0]["alias"], "RSP-009");
  EXPECT_EQ(json["cases"][0]["steps"][1]["kind"], "sent");
  EXPECT_EQ(json["cases"][0]["steps"][2]["frame"].get<std::string>().substr(0, 4), "2222");
  EXPECT_FALSE(json["cases"][1].contains("expected"));
  EXPECT_EQ(json["note"], disclaimer);
  const auto rule = std::find_if(json["rules"].begin(), json["rules"].end(),
                                 [](const auto& one) { return one["rule"] == "rc.responder.ack.in-order"; });
  ASSERT_NE(rule, json["rules"].end());
  EXPECT_EQ((*rule)["state"], "passed");
  EXPECT_EQ((*rule)["passed"], 2);
  EXPECT_EQ(json["rules"].size(), a_report().watched().size());
}

TEST(Report, LongTranscriptsAreAbridged) {
  CaseResult result = a_report().results.front();
  const Step one = result.transcript[1], last = result.transcript.back();
  result.transcript.assign(70'000, one);
  result.transcript.back() = last;
  const auto steps = to_json(result)["steps"];
  ASSERT_EQ(steps.size(), 1201U);
  EXPECT_EQ(steps[1000]["text"], "68800 further steps are only in the capture");
  EXPECT_EQ(steps[1200]["kind"], "violation");
  Report report = a_report();
  report.results.front() = result;
  EXPECT_LT(to_html(report, "captures").size(), 200'000U);
}

TEST(Report, JunitHasFailuresAndSkippedCases) {
  const std::string xml = to_junit(a_report());
  EXPECT_NE(xml.find("<testsuite name=\"rc.responder\" tests=\"2\" failures=\"1\" errors=\"0\" skipped=\"1\">"),
            std::string::npos)
      << xml;
  EXPECT_NE(xml.find("two &lt;missing&gt;"), std::string::npos);
  EXPECT_NE(xml.find("<skipped message=\"unsupported: the device has no queue pairs\""), std::string::npos);
}

TEST(Report, WritesCaptureAndReports) {
  const std::filesystem::path directory =
      std::filesystem::path(testing::TempDir()) / ("report_test." + std::to_string(::getpid()));
  const auto written = write_capture(a_report().results.front(), directory);
  ASSERT_TRUE(written) << written.error();
  auto reader = captures::Reader::open(directory / "captures" / "rc.responder.psn.sequence-error-two-<missing>.pcapng");
  ASSERT_TRUE(reader);
  captures::Record record;
  ASSERT_EQ(reader->next(record), captures::Next::record);
  EXPECT_EQ(record.bytes.size(), 60U);
  EXPECT_EQ(record.time, 2000);
  std::vector<std::string> comments;
  for (const std::string_view comment : record.comments()) comments.emplace_back(comment);
  EXPECT_EQ(comments, (std::vector<std::string>{"a queue pair", "sent: RC SEND Only, PSN +1"}));
  ASSERT_EQ(reader->next(record), captures::Next::record);
  comments.clear();
  for (const std::string_view comment : record.comments()) comments.emplace_back(comment);
  EXPECT_EQ(comments, (std::vector<std::string>{"received: NAK invalid request, PSN +0",
                                                "VIOLATION: expected NAK PSN sequence error"}));
  EXPECT_EQ(reader->next(record), captures::Next::end);
  const auto report = write(a_report(), directory);
  ASSERT_TRUE(report) << report.error();
  for (const char* name : {"report.json", "junit.xml", "index.html"})
    EXPECT_GT(std::filesystem::file_size(directory / name), 100U) << name;
  std::filesystem::remove_all(directory);
  EXPECT_FALSE(write_capture(a_report().results.front(), "/proc/none"));
  // The directory cannot be created.
  EXPECT_FALSE(write(a_report(), "/proc/none"));
}

}  // namespace
}  // namespace rdmawire::conformance
