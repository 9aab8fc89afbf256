// The result of a check does not depend on the number of threads.

#include "conformance/monitors/run.hpp"

#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "captures/analysis/damaged_for_test.hpp"
#include "conformance/monitors/report.hpp"

namespace rdmawire::conformance {
namespace {

using captures::analysis::testing::damaged;
using captures::analysis::testing::difference_of;
using captures::analysis::testing::samples;
using captures::analysis::testing::Scratch;

CheckOptions options_for(std::vector<std::string> files) {
  CheckOptions options;
  options.files = std::move(files);
  options.parallel_from = 0;
  return options;
}

/// Expects equal results with 1, 2, 3 and 7 threads. Returns the result.
std::string expect_equal(CheckOptions options) {
  const auto text = [&](unsigned threads) {
    options.threads = threads;
    const CheckResult result = check(options);
    std::string report = report_of(result).dump(1);
    for (const std::string& trouble : result.troubles) report += "\n" + trouble;
    return report;
  };
  const std::string one = text(1);
  for (const unsigned threads : {2U, 3U, 7U}) EXPECT_EQ(difference_of(text(threads), one), "") << threads << " threads";
  return one;
}

TEST(CheckRun, EachSampleHasTheSameReportWithAnyNumberOfThreads) {
  for (const std::string& file : samples()) {
    SCOPED_TRACE(file);
    EXPECT_GT(expect_equal(options_for({file})).size(), 1000U);
  }
}

TEST(CheckRun, AllSamplesAsOneCaptureHaveTheSameReport) { expect_equal(options_for(samples())); }

TEST(CheckRun, DamagedCapturesHaveTheSameReport) {
  const Scratch scratch;
  for (const std::uint32_t seed : {1U, 2U}) {
    SCOPED_TRACE(seed);
    CheckOptions options = options_for({damaged(scratch / "damaged.pcapng", seed)});
    const std::string usual = expect_equal(options);
    options.monitors.assumptions.everywhere = true;
    EXPECT_NE(expect_equal(options), usual);
  }
}

TEST(CheckRun, FullTablesAndEvictionsHaveTheSameReport) {
  const Scratch scratch;
  CheckOptions options = options_for({damaged(scratch / "full.pcapng", 3)});
  options.tracker.connections = 20;
  options.tracker.memory = 1 << 18;
  options.dissector.tcp.connections = 4;
  options.dissector.evidence = 4;
  options.monitors.violations = 10;
  options.monitors.exchanges = 2;
  options.monitors.closed_queue_pairs = 4;
  expect_equal(options);
  CheckOptions one = options_for(options.files);
  one.monitors.assumptions.everywhere = true;
  const CheckResult result = check(one);
  ASSERT_FALSE(result.connections.empty());
  one.monitors.connection = result.connections.begin()->first;
  expect_equal(one);
}

}  // namespace
}  // namespace rdmawire::conformance
