#pragma once
/// What the page of `analyze --html` shows beside the report: the packets of some connections as points over time,
/// what these connections carried, and the frames around each finding. docs/reference/analyze-report.md, "The page's
/// details".

#include <cstddef>
#include <string>
#include <vector>

#include "captures/analysis/report.hpp"
#include "captures/analysis/run.hpp"

namespace rdmawire::captures::analysis {

struct DetailsOptions {
  std::size_t connections = 50;         ///< those with findings, worst first, then those with most bytes
  std::size_t points = 20'000;          ///< of one connection at most; more are sampled evenly
  std::size_t points_in_all = 400'000;  ///< shared by the connections, where these are many
  std::size_t findings = 100;           ///< that have a ladder, worst first
  std::int64_t steps = 240;             ///< of a connection's series
};

/// Reads the files once more, as `options` says (which must be what run() got, on files that can be read twice; what
/// they have in `also`, `on_packet` and `threads` does not count), and gives the details as JSON.
///
/// `analysis` and `report` are what the first reading gave. Memory is bounded by `details`, whatever the files hold.
/// A file that cannot be read any more makes the details end there: the first reading has told of it.
std::string details_of(const RunOptions& options, const Analysis& analysis, const Json& report,
                       const DetailsOptions& details = {});

}  // namespace rdmawire::captures::analysis
