#pragma once
/// Several captures of one job, compared: read twice, once to find out how they lie to each other, once to follow each
/// packet through them.

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
  std::vector<std::string> files;  ///< one a vantage point, at most most_points; they are read twice, so no streams
  ReadOptions read;
  LayoutOptions layout;
  MatcherOptions matcher;
  std::size_t samples = 1U << 16;  ///< packets of each capture that clocks and order are found from, at most
  unsigned threads = 1;
};

struct Comparison {
  std::vector<Survey> surveys;  ///< of the files that could be opened, in their order
  std::unique_ptr<Layout> layout;
  std::unique_ptr<Ledger> ledger;
  IdentityBy identity = IdentityBy::icrc;
  std::uint64_t unidentified = 0;     ///< packets that were cut before what their identity needs
  std::uint64_t evaluated_early = 0;  ///< packets that had to be judged before the window was over
  LayoutOptions layout_options;
  MatcherOptions matcher_options;
  std::vector<std::string> troubles;  ///< files that could not be read (to their end), one sentence each
};

Comparison run(const RunOptions& options);

/// Whether these files can be compared; the error says why not.
tl::expected<void, std::string> check_points(const std::vector<std::string>& files);
/// Which of `files` are named, by their names or the ends of these; all of them, or none. The error says what is wrong.
tl::expected<std::vector<std::size_t>, std::string> order_of_points(const std::vector<std::string>& names,
                                                                    const std::vector<std::string>& files);

/// The comparison as one JSON object; docs/reference/analyze-report.md names the keys.
analysis::Json report_of(const Comparison& comparison);
/// As a terminal shows it.
std::string text_of(const analysis::Json& report, const analysis::TextOptions& options = {});

}  // namespace rdmawire::captures::vantage
