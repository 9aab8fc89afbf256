#pragma once
/// Checks capture files: reads, dissects, tracks and monitors packets in one or more threads.

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
  unsigned threads = 1;                    ///< maximum number of threads
  tracking::DissectorOptions dissector;
  tracking::TrackerOptions tracker;
  MonitorOptions monitors;
  /// Limit of the process's memory in bytes, not counting memory-mapped files. Lowers the limits in the three members
  /// above if necessary.
  std::uint64_t memory = captures::analysis::default_memory;
};

/// The result of a check, independent of the number of threads.
struct CheckResult {
  std::array<ResultCounters, rules.size()> counters{};        ///< by rule
  std::vector<Violation> violations;                          ///< in the order of their first frames
  std::uint64_t omitted = 0;                                  ///< number of violations that are only counted
  std::unordered_map<std::uint64_t, Connection> connections;  ///< connections with violations, by id
  std::uint64_t all_connections = 0;                          ///< number of all connections
  std::uint64_t evicted_connections = 0;                      ///< number of connections evicted at a limit
  std::uint64_t evicted_packets = 0;                          ///< number of other table entries evicted at a limit
  captures::analysis::Input input;
  std::vector<std::string> troubles;  ///< read errors, at most one sentence for each file

  /// Returns whether a rule of this level was violated.
  [[nodiscard]] bool violated(Level level) const;
};

/// Checks the files as one capture with continuous frame numbers. Threads and failed allocations are handled as in
/// captures::analysis::run().
CheckResult check(const CheckOptions& options);

}  // namespace rdmawire::conformance
