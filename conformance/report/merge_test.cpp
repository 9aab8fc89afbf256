#include "conformance/report/merge.hpp"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <fstream>
#include <sstream>

namespace rdmawire::conformance {
namespace {

namespace fs = std::filesystem;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::MatchesRegex;

std::string text_of_path(const fs::path& path) {
  std::ostringstream text;
  text << std::ifstream(path, std::ios::binary).rdbuf();
  return text.str();
}

/// Cases with two variants and more, one of which a fault fails.
const std::vector<std::string> selection{"RSP-009", "RSP-01*", "DDP-001"};

class MergeTest : public testing::Test {
 protected:
  MergeTest() : directory_(fs::path(testing::TempDir()) / fmt::format("merge_test.{}", ::getpid())) {
    fs::create_directories(directory_);
  }
  ~MergeTest() override { fs::remove_all(directory_); }

  [[nodiscard]] fs::path path(const std::string& name) const { return directory_ / name; }
  /// Writes the package of a shard.
  void run(const std::string& name, unsigned index, unsigned count,
           const std::function<void(AssessmentOptions&)>& change = {}) const {
    AssessmentListener silent;
    AssessmentOptions options;
    options.seed = 7;
    options.jobs = 1;
    options.patterns = selection;
    options.target.faults = {"naks-every-packet"};
    options.arguments = {"--fault", "naks-every-packet"};
    options.report = path(name);
    std::vector<const Case*> all;
    for (const Case& which : cases())
      if (is_chosen(which, selection)) all.push_back(&which);
    options.cases = shard_of(all, index, count);
    if (count > 1) options.shard = fmt::format("{}/{}", index, count);
    if (change) change(options);
    const auto made = Assessment::run(std::move(options), silent);
    ASSERT_TRUE(made) << made.error().message;
    ASSERT_THAT((*made)->troubles, IsEmpty());
  }
  [[nodiscard]] MergeOptions of(const std::vector<std::string>& names) const {
    MergeOptions options{.directory = path("all"), .packages = {}};
    for (const std::string& name : names) options.packages.push_back(path(name));
    return options;
  }
  [[nodiscard]] std::string error_of(const std::vector<std::string>& names) const {
    const auto made = merge_packages(of(names));
    std::string text = made ? "merged" : made.error();
    const std::string prefix = directory_.string() + "/";
    for (std::size_t at = text.find(prefix); at != std::string::npos; at = text.find(prefix))
      text.erase(at, prefix.size());
    return text;
  }
  /// A JSON file of a package.
  [[nodiscard]] nlohmann::json json(const std::string& name) const {
    return nlohmann::json::parse(text_of_path(path(name)));
  }

  const fs::path directory_;
};

TEST_F(MergeTest, ShardsEqualARunWithoutShards) {
  run("whole", 1, 1);
  for (unsigned i = 1; i <= 3; ++i) run(fmt::format("part{}", i), i, 3);
  const auto made = merge_packages(of({"part3", "part1", "part2"}));
  ASSERT_TRUE(made) << made.error();
  EXPECT_FALSE((*made)->unexpected.empty());
  EXPECT_EQ(text_of_path(path("all/report.json")), text_of_path(path("whole/report.json")));
  EXPECT_EQ(text_of_path(path("all/traceability.csv")), text_of_path(path("whole/traceability.csv")));
  EXPECT_EQ(text_of_path(path("all/junit.xml")), text_of_path(path("whole/junit.xml")));
  EXPECT_EQ(text_of_path(path("all/index.html")), text_of_path(path("whole/index.html")));
  std::size_t captures = 0;
  for (const auto& file : fs::directory_iterator(path("whole/captures"))) {
    EXPECT_EQ(text_of_path(file.path()), text_of_path(path("all/captures") / file.path().filename()));
    ++captures;
  }
  EXPECT_GT(captures, 5U);
  const auto check = verify_package(path("all"));
  ASSERT_TRUE(check) << check.error();
  EXPECT_TRUE(check->is_intact() && check->is_complete()) << text_of(*check);
  EXPECT_EQ(check->manifest.sessions.size(), 3U);
  const auto manifest = json("all/manifest.json"), whole = json("whole/manifest.json");
  for (const char* member : {"parameters", "device", "arguments", "verdicts", "cases", "seed"})
    EXPECT_EQ(manifest[member], whole[member]) << member;
  EXPECT_EQ(manifest["shards"][1]["shard"], "2/3");
  EXPECT_EQ(manifest["shards"][1]["manifest_sha256"], sha256_of(text_of_path(path("part2/manifest.json"))));
  EXPECT_EQ(text_of_path(path("all/inputs/shard-2.json")), text_of_path(path("part2/manifest.json")));
}

TEST_F(MergeTest, ShardsWithRowsEqualARunWithoutShards) {
  const auto with_rows = [](AssessmentOptions& options) { options.strength = 1; };
  run("whole", 1, 1, with_rows);
  run("a", 1, 2, with_rows);
  run("b", 2, 2, with_rows);
  ASSERT_EQ(error_of({"a", "b"}), "merged");
  const auto all = json("all/report.json"), whole = json("whole/report.json");
  EXPECT_EQ(all["strength"], 1);
  EXPECT_GT(all["combinations"]["tested"], 0);
  EXPECT_TRUE(all.contains("parameters"));
  EXPECT_EQ(all, whole);
}

TEST_F(MergeTest, WaiversAndIcsApplyToTheMergedResults) {
  std::ofstream(path("waivers.json")) << R"({"format": 1, "cases": {
    "RSP-009": {"verdict": "fail", "reason": "known", "until": "2099-01-01"},
    "RSP-009/as observed": {"verdict": "fail", "reason": "known", "until": "2099-01-01"}}})";
  std::ofstream(path("ics.json")) << R"({"format": 1, "transport": "roce", "capabilities": {"xrc": true, "uc": false},
    "limits": {"max_qp": 1}})";
  const auto with_files = [&](AssessmentOptions& options) {
    options.waivers = path("waivers.json");
    options.ics_file = path("ics.json");
    options.ics = Ics::read(path("ics.json")).value();
  };
  run("whole", 1, 1, with_files);
  run("a", 1, 2, with_files);
  run("b", 2, 2, with_files);
  ASSERT_EQ(error_of({"a", "b"}), "merged");
  EXPECT_EQ(text_of_path(path("all/report.json")), text_of_path(path("whole/report.json")));
  EXPECT_THAT(json("all/report.json")["ics"].dump(), HasSubstr("unclaimed"));
  EXPECT_EQ(text_of_path(path("all/inputs/waivers.json")), text_of_path(path("waivers.json")));
}

TEST_F(MergeTest, MissingAndRepeatedShardsAreRefused) {
  run("a", 1, 4);
  run("b", 3, 4);
  run("c", 3, 4);
  EXPECT_EQ(error_of({"a", "b"}), "shards 2/4, 4/4 are missing");
  EXPECT_EQ(error_of({"a", "b", "c"}), "b and c are both shard 3/4");
  EXPECT_EQ(error_of({"a"}), "expected the packages of two or more shards, got 1");
  run("d", 2, 2);
  EXPECT_EQ(error_of({"a", "d"}), "a is shard 1/4, but d is shard 2/2: they are of different campaigns");
  run("whole", 1, 1);
  EXPECT_EQ(error_of({"a", "whole"}), "whole: the package is not a shard: it contains a complete run");
  EXPECT_FALSE(fs::exists(path("all")));
}

TEST_F(MergeTest, DifferentSetupsAreRefused) {
  run("a", 1, 2);
  const auto differs = [&](const std::function<void(AssessmentOptions&)>& change) {
    fs::remove_all(path("b"));
    run("b", 2, 2, change);
    return error_of({"a", "b"});
  };
  EXPECT_EQ(differs([](auto& options) { options.seed = 8; }), "a and b have different setups: seed is 7 and 8");
  EXPECT_EQ(differs([](auto& options) { options.repeat = 2; }), "a and b have different setups: repeat is 1 and 2");
  EXPECT_EQ(differs([](auto& options) { options.target.faults = {}; }),
            R"(a and b have different setups: faults is ["naks-every-packet"] and [])");
  EXPECT_EQ(differs([](auto& options) { options.strict = true; }),
            "a and b have different setups: strict is false and true");
  EXPECT_EQ(differs([](auto& options) { options.patterns = {"RSP-009"}; }),
            R"(a and b have different setups: selection is ["RSP-009","RSP-01*","DDP-001"] and ["RSP-009"])");
  std::ofstream(path("waivers.json")) << R"({"format": 1, "cases": {}})";
  EXPECT_EQ(differs([&](auto& options) { options.waivers = path("waivers.json"); }),
            "a and b have different setups: their inputs/waivers.json differ");
}

TEST_F(MergeTest, OverlappingShardsAreRefused) {
  run("a", 1, 2);
  run("b", 2, 2, [](AssessmentOptions& options) {
    for (const Case& which : cases())
      if (is_chosen(which, selection)) {
        options.cases.push_back(&which);  // the first case of shard 1/2
        break;
      }
  });
  EXPECT_THAT(error_of({"a", "b"}), MatchesRegex("a and b both contain [a-z.-]+.*"));
}

TEST_F(MergeTest, ModifiedKilledAndPartialShardsAreRefused) {
  run("a", 1, 2);
  run("b", 2, 2);
  std::ofstream(path("b/junit.xml"), std::ios::app) << " ";
  EXPECT_THAT(error_of({"a", "b"}), HasSubstr("b: the package is not intact: list the differences with rdmawire"));
  fs::remove_all(path("b"));
  run("b", 2, 2);
  std::ofstream(path("b/results.ndjson"), std::ios::app) << "{}\n";
  EXPECT_THAT(error_of({"a", "b"}), HasSubstr("b: the package is not intact"));
  auto manifest = json("a/manifest.json");
  manifest["sessions"].back().erase("end");
  std::ofstream(path("a/manifest.json")) << manifest;
  EXPECT_EQ(error_of({"b", "a"}), "b: the package is not intact: list the differences with rdmawire certify verify " +
                                      path("b").string().substr(directory_.string().size() + 1));
  fs::remove_all(path("b"));
  run("b", 2, 2);
  EXPECT_EQ(error_of({"b", "a"}), "a: the run was killed: continue it with rdmawire certify --resume");
  manifest["sessions"].back()["end"] = "2026-11-27T15:50:36Z";
  manifest["partial"] = "3 of 5 cases ran";
  std::ofstream(path("a/manifest.json")) << manifest;
  EXPECT_EQ(error_of({"b", "a"}),
            "a: the run is partial (3 of 5 cases ran): continue it with rdmawire certify --resume");
  EXPECT_EQ(error_of({"b", "none"}), "none/manifest.json: could not be read: No such file or directory");
}

TEST_F(MergeTest, AnotherReportIsNotReplaced) {
  run("a", 1, 2);
  run("b", 2, 2);
  MergeOptions into_a = of({"a", "b"});
  into_a.directory = path("a");
  EXPECT_THAT(merge_packages(into_a).error(), HasSubstr("is one of the shards: specify a new directory"));
  ASSERT_EQ(error_of({"a", "b"}), "merged");
  EXPECT_THAT(error_of({"a", "b"}), HasSubstr("all contains the report of another run"));
  MergeOptions again = of({"a", "b"});
  again.overwrite = true;
  EXPECT_TRUE(merge_packages(again));
}

TEST_F(MergeTest, SeveralBenchesNeedTheFlag) {
  run("a", 1, 2);
  run("b", 2, 2);
  // Another bench: its wire differs. The digests follow.
  std::string lines = text_of_path(path("b/results.ndjson"));
  lines.insert(lines.find("\"setup\":{") + 9, R"("wire":"packet:eth2",)");
  std::ofstream(path("b/results.ndjson"), std::ios::binary) << lines;
  auto manifest = json("b/manifest.json");
  manifest["parameters"]["wire"] = "packet:eth2";
  for (auto& file : manifest["files"])
    if (file["path"] == "results.ndjson") file.update({{"bytes", lines.size()}, {"sha256", sha256_of(lines)}});
  std::ofstream(path("b/manifest.json")) << manifest;
  EXPECT_EQ(error_of({"a", "b"}), "a and b have different setups: wire is not set and \"packet:eth2\"");
  MergeOptions several = of({"a", "b"});
  several.several_benches = true;
  EXPECT_TRUE(merge_packages(several));
  manifest["device"]["firmware"] = "2";
  std::ofstream(path("b/manifest.json")) << manifest;
  several.overwrite = true;
  EXPECT_THAT(merge_packages(several).error(), HasSubstr("firmware is"));
}

TEST(ReportRemainder, MembersAreRead) {
  const auto read = parse_report_remainder(
      R"({"format": 1, "date": "2026-11-27",
          "basic": [{"rule": "rc.responder.psn.sequence-error", "family": "RoCE", "expected": "a", "actual": "b"}],
          "preflight": [{"status": "warn", "check": "c", "observed": "d", "advice": "e"}],
          "ics": [{"member": "capabilities.xrc", "reported": "false"}, {"member": "limits.max_qp", "reported": "5"},
                  {"member": "capabilities.uc"}]})",
      "f");
  ASSERT_TRUE(read) << read.error();
  EXPECT_EQ(read->date, "2026-11-27");
  ASSERT_EQ(read->basic.size(), 1U);
  EXPECT_EQ(read->basic[0].judgment.rule->alias, "RSP-009");
  EXPECT_EQ(read->preflight[0].status, Finding::Status::warn);
  EXPECT_EQ(read->reported.capabilities.at("xrc"), false);
  EXPECT_EQ(read->reported.limits.at("max_qp"), 5U);
  EXPECT_EQ(read->reported.capabilities.size(), 1U);
}

TEST(ReportRemainder, MalformedReportIsRejected) {
  for (const auto& [text, message] :
       {std::pair("[]", "f: is no report of format 1"),
        {R"({"format": 2})", "f: is no report of format 1"},
        {R"({"format": 1, "date": 5})", "f: a member has another type"},
        {R"({"format": 1, "basic": [{"family": "RoCE", "rule": "none"}]})", "f: \"basic\" names an unknown rule"},
        {R"({"format": 1, "basic": [{"family": "TCP", "rule": "RSP-009"}]})", "f: \"basic\" names an unknown rule"},
        {R"({"format": 1, "basic": [5]})", "f: a member has another type"},
        {R"({"format": 1, "preflight": [{"status": "good"}]})", "f: \"preflight\" has an unknown status"},
        {R"({"format": 1, "ics": [{"member": "limits.max_qp", "reported": "x"}]})", "f: \"ics\" has an unknown member"},
        {R"({"format": 1, "ics": [{"member": "xrc", "reported": "true"}]})", "f: \"ics\" has an unknown member"}})
    EXPECT_THAT(parse_report_remainder(text, "f").error(), HasSubstr(message)) << text;
}

}  // namespace
}  // namespace rdmawire::conformance
