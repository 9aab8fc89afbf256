#pragma once
/// Data that the HTML report contains in addition to the JSON report: packets of selected connections as points over
/// time, bytes and messages of these connections over time, and the frames around each finding. See
/// docs/reference/analyze-report.md, "The page's details".

#include <cstddef>
#include <string>
#include <vector>

#include "captures/analysis/report.hpp"
#include "captures/analysis/run.hpp"

namespace rdmawire::captures::analysis {

struct DetailsOptions {
  /// Number of connections. The first are those with findings, worst first, then follow those with the most bytes.
  std::size_t connections = 50;
  std::size_t points = 20'000;          ///< maximum number of points per connection, which are sampled evenly
  std::size_t points_in_all = 400'000;  ///< maximum number of points of all connections together
  std::size_t findings = 100;           ///< number of findings that get a sequence diagram, worst first
  std::int64_t steps = 240;             ///< maximum number of steps in a connection's time series
};

/// Reads the files a second time and returns the details as JSON. `options` must equal the options of run(), and the
/// files must support repeated reading. Ignores `also`, `on_packet` and `threads`.
///
/// `analysis` and `report` are the results of the first pass. `details` limits the memory. If a file can no longer be
/// read, the details end there.
std::string details_of(const RunOptions& options, const Analysis& analysis, const Json& report,
                       const DetailsOptions& details = {});

}  // namespace rdmawire::captures::analysis
