// Tests the limits of the details in the page. tests/page compares their contents with other tables.

#include "captures/analysis/details.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "source_directory.hpp"

namespace rdmawire::captures::analysis {
namespace {

struct Done {
  Json report, details;
};

Done analyze(const std::string& sample, const DetailsOptions& options = {}) {
  RunOptions run_options;
  run_options.files = {RDMAWIRE_SOURCE_DIR "/captures/samples/" + sample};
  const RunResult result = run(run_options);
  EXPECT_TRUE(result.errors.empty());
  Done done;
  done.report = report_of(result.analysis, result.input);
  done.details = Json::parse(details_of(run_options, result.analysis, done.report, options));
  return done;
}

std::size_t count(const Json& points, int kind) {
  return static_cast<std::size_t>(
      std::count_if(points.begin(), points.end(), [kind](const Json& point) { return point[2] == kind; }));
}

TEST(Details, SamplingIsEvenAndKeepsRetransmissions) {
  const Done whole = analyze("rc-pingpong-loss.pcap.gz");
  const Json& all = whole.details["connections"][0]["points"];
  EXPECT_FALSE(whole.details["connections"][0]["sampled"].get<bool>());
  ASSERT_GT(all.size(), 900U);
  const Done few = analyze("rc-pingpong-loss.pcap.gz", {.points = 480});
  const Json& points = few.details["connections"][0]["points"];
  EXPECT_TRUE(few.details["connections"][0]["sampled"].get<bool>());
  EXPECT_LE(points.size(), 480U);
  EXPECT_GE(points.size(), 240U);
  // 90 retransmissions and 14 NAKs are less than the reserved quarter of 480 points.
  EXPECT_EQ(count(points, 1), count(all, 1));
  EXPECT_EQ(count(points, 4), count(all, 4));
  EXPECT_EQ(count(points, 1), 90U);
  // Each tenth of the capture has points.
  const std::size_t plenty = points.size() - count(points, 1) - count(points, 4);
  for (std::size_t tenth = 0; tenth < 10; ++tenth) {
    const std::uint64_t from = all[all.size() * tenth / 10][4].get<std::uint64_t>();
    const std::uint64_t to = all[all.size() * (tenth + 1) / 10 - 1][4].get<std::uint64_t>();
    const auto share = std::count_if(points.begin(), points.end(), [&](const Json& point) {
      return point[4].get<std::uint64_t>() >= from && point[4].get<std::uint64_t>() <= to;
    });
    EXPECT_GE(static_cast<std::size_t>(share), plenty / 30) << "tenth " << tenth;
  }
}

TEST(Details, ConnectionsAndDiagramsAreLimited) {
  const Done done = analyze("rc-pingpong-loss.pcap.gz", {.connections = 0, .findings = 2});
  EXPECT_TRUE(done.details["connections"].empty());
  ASSERT_EQ(done.details["sequences"].size(), 2U);
  EXPECT_EQ(done.details["sequences"][0]["finding"], 1);
}

TEST(Details, DiagramMarksSkippedFrames) {
  const Done done = analyze("siw-write-loss.pcap.gz");
  ASSERT_FALSE(done.details["sequences"].empty());
  std::uint64_t before = 0;
  bool skips = false;
  for (const Json& frame : done.details["sequences"][0]["frames"]) {
    EXPECT_GT(frame["frame"].get<std::uint64_t>(), before);
    before = frame["frame"].get<std::uint64_t>();
    skips |= frame.contains("skipped");
  }
  EXPECT_TRUE(skips);  // the plot has a gap between the lost segment and its retransmission
}

TEST(Details, CaptureWithoutRdmaHasNone) {
  RunOptions options;
  Analysis analysis;
  const Json report = report_of(analysis, {});
  EXPECT_EQ(details_of(options, analysis, report), R"({"schema":"rdmawire.page/2","connections":[],"sequences":[]})");
}

}  // namespace
}  // namespace rdmawire::captures::analysis
