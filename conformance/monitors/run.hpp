#pragma once
/// Checks capture files: reading, dissecting, tracking and monitoring in one or more threads.

#include <array>
#include <cstdint>
#include <string>
#include <unordered_map>
#include <vector>

#include "captures/analysis/capture_scan.hpp"
#include "captures/analysis/memory.hpp"
#include "conformance/monitors/monitors.hpp"
#include "dissectors/output/filter.hpp"
#include "dissectors/tracking/dissector.hpp"
#include "dissectors/tracking/tracker.hpp"

namespace rdmawire::conformance {

struct CheckOptions : captures::analysis::ScanOptions {
  const output::Filter* filter = nullptr;  ///< packets that do not match are ignored
  unsigned threads = 1;                    ///< maximum
  tracking::DissectorOptions dissector;
  tracking::TrackerOptions tracker;
  MonitorOptions monitors;
  /// Bound on the memory of the process in bytes, without mapped files: lowers the limits of the three above.
  std::uint64_t memory = captures::analysis::default_memory;
};

/// The result of a check, independent of the number of threads.
struct CheckResult {
  std::array<ResultCounters, rules.size()> counters{};        ///< by rule
  std::vector<Violation> violations;                          ///< in the order of their first frames
  std::uint64_t omitted = 0;                                  ///< violations that are only counted
  std::unordered_map<std::uint64_t, Connection> connections;  ///< those with violations
  std::uint64_t all_connections = 0;                          ///< number of connections
  std::uint64_t evicted_connections = 0;                      ///< connections evicted because a limit was reached
  std::uint64_t evicted_packets = 0;                          ///< the same for other entries of tables
  captures::analysis::Input input;
  std::vector<std::string> troubles;  ///< read errors, one sentence for each file

  /// Returns whether a rule of this level was violated.
  [[nodiscard]] bool violated(Level level) const;
};

/// Checks the files as one capture with continuous frame numbers. The same rules as for captures::analysis::run() apply
/// to threads and failed allocations.
CheckResult check(const CheckOptions& options);

}  // namespace rdmawire::conformance
