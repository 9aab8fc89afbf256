#include "conformance/report/journal.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <fstream>
#include <sstream>

#include "conformance/report/report.hpp"

namespace rdmawire::conformance {
namespace {

using testing::HasSubstr;

class JournalTest : public testing::Test {
 protected:
  JournalTest()
      : directory_(std::filesystem::path(testing::TempDir()) / ("journal_test." + std::to_string(::getpid()))) {}
  ~JournalTest() override { std::filesystem::remove_all(directory_); }

  static CaseResult a_result(std::size_t index) {
    CaseResult result;
    result.of = &cases()[index];
    result.judgment = {Verdict::fail_wrong_code, "one \"thing\"", "another\nthing"};
    result.transcript = {{Step::Kind::sent, 7, "a frame", {1, 2, 255}}, {Step::Kind::violation, 9, "wrong", {}}};
    result.seed = 0xfedcba9876543210;
    result.nanoseconds = 12;
    result.attempts = {{Verdict::pass, 3}, {Verdict::fail_wrong_code, 4}};
    result.complaints = {"a kernel's words"};
    result.observed.counters[3] = {.passed = 2, .violated = 1};
    result.observed.counters[3].inconclusive_by_reason[1] = 4;
    Violation& seen = result.observed.violations.emplace_back();
    seen.rule = 3;
    seen.count = 1;
    seen.statement = {"one", "two", {}};
    return result;
  }

  const RunIdentity identity_{"lab:rxe", "rxe0 at guest, kernel 6.1", 5, 2, {{"faults", {"a"}}}, {"one", "two"}};
  const std::filesystem::path directory_;
};

TEST_F(JournalTest, ResumeReturnsWrittenResults) {
  {
    auto journal = Journal::begin(directory_, identity_);
    ASSERT_TRUE(journal) << journal.error();
    journal->append(a_result(0));
    journal->append(a_result(7));
    EXPECT_EQ(journal->error(), "");
  }
  EXPECT_EQ(Journal::seed_of(directory_).value(), 5U);
  auto again = Journal::resume(directory_, identity_);
  ASSERT_TRUE(again) << again.error();
  ASSERT_EQ(again->results().size(), 2U);
  const CaseResult& result = again->results()[1];
  EXPECT_EQ(to_json(result), to_json(a_result(7)));
  EXPECT_EQ(result.of, &cases()[7]);
  EXPECT_EQ(result.transcript[0].frame, (std::vector<std::uint8_t>{1, 2, 255}));
  EXPECT_TRUE(result.flaky());
  EXPECT_EQ(result.observed.counters.at(3).inconclusive_by_reason[1], 4U);
  EXPECT_EQ(result.observed.counters.at(3).evaluated(), 7U);
  EXPECT_TRUE(std::filesystem::exists(directory_ / "captures" / capture_name(result)));
  again->append(a_result(9));
  EXPECT_EQ(Journal::resume(directory_, identity_)->results().size(), 3U);
}

TEST_F(JournalTest, ResultReplacesCheckpoints) {
  {
    auto journal = Journal::begin(directory_, identity_);
    journal->append_checkpoint(a_result(0));
    journal->append_checkpoint(a_result(7));
    journal->append_checkpoint(a_result(7));
  }
  auto again = Journal::resume(directory_, identity_);
  ASSERT_TRUE(again) << again.error();
  EXPECT_TRUE(again->results().empty());
  EXPECT_EQ(again->checkpoints().size(), 2U);
  again->append(a_result(7));
  again = Journal::resume(directory_, identity_);
  ASSERT_EQ(again->checkpoints().size(), 1U);
  EXPECT_EQ(again->checkpoints()[0].of, &cases()[0]);
  EXPECT_EQ(again->results().size(), 1U);
}

TEST_F(JournalTest, IncompleteLastLineIsIgnored) {
  Journal::begin(directory_, identity_)->append(a_result(0));
  std::ofstream(directory_ / "results.ndjson", std::ios::app) << R"({"id":"rc.respon)";
  auto again = Journal::resume(directory_, identity_);
  ASSERT_TRUE(again) << again.error();
  EXPECT_EQ(again->results().size(), 1U);
  again->append(a_result(1));
  EXPECT_EQ(Journal::resume(directory_, identity_)->results().size(), 2U) << "the incomplete line was removed";
}

TEST_F(JournalTest, ResumeOfAnotherRunFails) {
  EXPECT_THAT(Journal::resume(directory_, identity_).error(), HasSubstr("contains no run to resume"));
  Journal::begin(directory_, identity_)->append(a_result(0));
  const auto refusal = [&](auto change) {
    RunIdentity other = identity_;
    change(other);
    const auto journal = Journal::resume(directory_, other);
    return journal ? std::string() : journal.error();
  };
  EXPECT_THAT(refusal([](RunIdentity& run) { run.device = "reference"; }),
              HasSubstr("device of that run is \"lab:rxe\", of this one \"reference\""));
  EXPECT_THAT(refusal([](RunIdentity& run) { run.details = "6.12"; }), HasSubstr("details"));
  EXPECT_THAT(refusal([](RunIdentity& run) { run.seed = 6; }), HasSubstr("seed of that run is 5, of this one 6"));
  EXPECT_THAT(refusal([](RunIdentity& run) { run.repeat = 1; }), HasSubstr("repeat"));
  EXPECT_THAT(refusal([](RunIdentity& run) { run.setup["faults"] = nlohmann::json::array(); }),
              HasSubstr("faults of that run is [\"a\"], of this one []"));
  EXPECT_THAT(refusal([](RunIdentity& run) { run.setup["wire"] = "packet:eth1"; }),
              HasSubstr("wire of that run is not set, of this one \"packet:eth1\""));
  EXPECT_THAT(refusal([](RunIdentity& run) { run.cases.pop_back(); }),
              HasSubstr("that run selects 2 cases, this one 1"));
  EXPECT_THAT(refusal([](RunIdentity& run) { run.cases[0] = "three"; }),
              HasSubstr("that run selects 2 cases, this one others"));
  std::ofstream(directory_ / "results.ndjson")
      << R"({"format":1,"device":"lab:rxe","details":"rxe0 at guest, kernel 6.1","seed":5,"repeat":2})" << '\n';
  EXPECT_THAT(Journal::resume(directory_, identity_).error(), HasSubstr("does not state the setup"));
}

TEST_F(JournalTest, DamagedLineIsReported) {
  Journal::begin(directory_, identity_)->append(a_result(0));
  for (const char* line :
       {"{}", "nonsense", R"({"id":"no.such.case.here","verdict":"pass"})", R"({"id":7,"verdict":"pass"})"}) {
    Journal::begin(directory_, identity_)->append(a_result(0));
    std::ofstream(directory_ / "results.ndjson", std::ios::app) << line << '\n';
    EXPECT_THAT(Journal::resume(directory_, identity_).error(), HasSubstr("line 3 is not a result")) << line;
  }
  EXPECT_FALSE(Journal::begin("/proc/none", identity_));
}

TEST_F(JournalTest, NumbersThatAreNoIntegersAreReported) {
  const std::string start = R"({"id":")" + cases()[0].id() + R"(","verdict":"pass",)";
  const std::string rule(rules[0].id);
  const auto error_of = [&](const std::string& members) {
    Journal::begin(directory_, identity_)->append(a_result(1));
    std::ofstream(directory_ / "results.ndjson", std::ios::app) << start << members << "}\n";
    const auto journal = Journal::resume(directory_, identity_);
    return journal ? std::string() : journal.error();
  };
  EXPECT_EQ(error_of(R"("seed":7,"duration_ns":-7)"), "");
  const std::string before = R"([{"rule":")" + rule + R"(",)";
  for (const std::string& members : {
           std::string(R"("seed":1e30)"),
           std::string(R"("seed":1.5)"),
           std::string(R"("seed":-1)"),
           std::string(R"("seed":true)"),
           std::string(R"("duration_ns":-1e30)"),
           std::string(R"("attempts":[{"verdict":"pass","seed":1e30}])"),
           std::string(R"("steps":[{"kind":"note","time_ns":1e30}])"),
           R"("frames":)" + before + R"("count":1e30}])",
           R"("observed":)" + before + R"("count":1e30}])",
           R"("observed":)" + before + R"("frame":1e30}])",
           R"("counters":{")" + rule + R"(":[1e30,0,[]]})",
       })
    EXPECT_THAT(error_of(members), HasSubstr("line 3 is not a result")) << members;
}

}  // namespace
}  // namespace rdmawire::conformance
