#pragma once
/// Compares several captures of the same traffic in two passes. The first pass determines clocks and order, and the
/// second pass follows each packet.

#include <memory>
#include <string>
#include <tl/expected.hpp>
#include <vector>

#include "captures/analysis/report.hpp"
#include "captures/analysis/vantage/layout.hpp"
#include "captures/analysis/vantage/ledger.hpp"
#include "captures/analysis/vantage/survey.hpp"

namespace rdmawire::captures::vantage {

struct RunOptions {
  std::vector<std::string> files;  ///< one regular file per capture point, at most most_points files
  ReadOptions read;
  LayoutOptions layout;
  MatcherOptions matcher;
  std::size_t samples = 1U << 16;  ///< maximum number of packets per capture that are used to estimate clocks and order
  unsigned threads = 1;
};

struct Comparison {
  std::vector<Survey> surveys;  ///< surveys of the files that can be read, in order
  std::unique_ptr<Layout> layout;
  std::unique_ptr<Ledger> ledger;
  IdentityBy identity = IdentityBy::icrc;
  std::uint64_t unidentified = 0;  ///< number of packets that are too short to be identified
  /// Number of groups of observations that were evaluated before the end of their window.
  std::uint64_t evaluated_early = 0;
  LayoutOptions layout_options;
  MatcherOptions matcher_options;
  std::vector<std::string> errors;  ///< read errors, one sentence each
};

Comparison run(const RunOptions& options);

/// Checks whether these files can be compared.
tl::expected<void, std::string> check_points(const std::vector<std::string>& files);
/// Converts file names, or their last components, to indices into `files`. `names` must be empty or contain all files.
tl::expected<std::vector<std::size_t>, std::string> order_of_points(const std::vector<std::string>& names,
                                                                    const std::vector<std::string>& files);

/// Returns the comparison as a JSON object. docs/reference/analyze-report.md lists the keys.
analysis::Json report_of(const Comparison& comparison);
/// Returns the comparison as text for the terminal.
std::string text_of(const analysis::Json& report, const analysis::TextOptions& options = {});

}  // namespace rdmawire::captures::vantage
