#pragma once
/// Data of the HTML report in addition to the JSON report: packets of selected connections as points over time, bytes
/// and messages of these connections over time, and the frames around each finding. docs/reference/analyze-report.md,
/// "The page's details".

#include <cstddef>
#include <string>
#include <vector>

#include "captures/analysis/report.hpp"
#include "captures/analysis/run.hpp"

namespace rdmawire::captures::analysis {

struct DetailsOptions {
  std::size_t connections = 50;         ///< connections with findings, worst first, then those with the most bytes
  std::size_t points = 20'000;          ///< maximum per connection, sampled evenly
  std::size_t points_in_all = 400'000;  ///< maximum over all connections
  std::size_t findings = 100;           ///< findings with a sequence diagram, worst first
  std::int64_t steps = 240;             ///< steps of a connection's time series
};

/// Reads the files a second time and returns the details as JSON. `options` must equal the options of run(), and the
/// files must support repeated reading. Ignores `also`, `on_packet` and `threads`.
///
/// `analysis` and `report` are the results of the first pass. `details` bounds the memory. If a file has become
/// unreadable, the details end there.
std::string details_of(const RunOptions& options, const Analysis& analysis, const Json& report,
                       const DetailsOptions& details = {});

}  // namespace rdmawire::captures::analysis
