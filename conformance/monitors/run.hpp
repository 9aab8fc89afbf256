#pragma once
/// From capture files to evaluations: reading, dissecting, tracking and monitoring, by one thread or several.

#include <array>
#include <cstdint>
#include <string>
#include <unordered_map>
#include <vector>

#include "captures/analysis/capture_scan.hpp"
#include "conformance/monitors/monitors.hpp"
#include "dissectors/output/filter.hpp"
#include "dissectors/tracking/dissector.hpp"
#include "dissectors/tracking/tracker.hpp"

namespace rdmawire::conformance {

struct CheckOptions : captures::analysis::WalkOptions {
  const output::Filter* filter = nullptr;  ///< packets that do not match are as if not captured
  unsigned threads = 1;                    ///< at most; streams, filters and a chosen connection take one
  tracking::DissectorOptions dissector;
  tracking::TrackerOptions tracker;
  MonitorOptions monitors;
};

/// What was found. The same for any number of threads.
struct CheckResult {
  std::array<ResultCounters, rules.size()> tallies{};  ///< by rule
  std::vector<Violation> violations;                   ///< in the order of their first frames
  std::uint64_t untold = 0;                            ///< violations that were counted alone
  std::unordered_map<std::uint64_t, Connection> connections;
  std::uint64_t evicted_packets = 0;  ///< that found no room in the tracker
  captures::analysis::Input input;
  std::vector<std::string> troubles;  ///< files that could not be read (to their end), one sentence each

  /// Whether a rule of that level was violated.
  [[nodiscard]] bool violated(Level level) const;
};

/// Checks the files as one capture: frames are numbered on over all of them.
CheckResult check(const CheckOptions& options);

}  // namespace rdmawire::conformance
