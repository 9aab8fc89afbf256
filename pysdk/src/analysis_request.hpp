#pragma once
/// The options of an analysis, made from Python arguments.

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "captures/analysis/counters.hpp"
#include "captures/analysis/run.hpp"
#include "dissectors/output/filter.hpp"

namespace rdmawire::python {

/// The input and options of an analysis. Tables read the input again.
struct AnalysisRequest {
  captures::analysis::RunOptions run;
  std::shared_ptr<const output::Filter> filter;  ///< owner of run.filter

  /// Returns the first file that can be read only once.
  [[nodiscard]] std::optional<std::string> stream() const;
};

/// Returns a request without files and boundaries. Raises UsageError if the filter is invalid or uses unverified CRCs,
/// or if `ignore` contains an unknown name.
AnalysisRequest analysis_request(const std::string& filter, std::uint64_t connection,
                                 const std::vector<std::string>& ignore, std::uint16_t roce_port, bool verify_crcs,
                                 const std::vector<std::string>& disable_protocol = {});

/// Disables protocols by name. Raises UsageError.
void disable_protocols(DecodeOptions& options, const std::vector<std::string>& names);

/// Parses "12.5", "2026-11-21T07:53:37" or "frame:214". Empty: no boundary. Raises UsageError that starts with `name`.
captures::analysis::Boundary boundary_of(const char* name, const std::string& text);

/// Parses "512M" or "1073741824". Raises UsageError.
std::uint64_t memory_of(const std::string& text);

/// Host counters to compare with an analysis.
struct HostCounters {
  captures::analysis::Counters before, after;
  bool compares = false;
  /// `paths`: no file, one file (after), or two files (before, after). Raises UsageError and CaptureError.
  static HostCounters read(const std::vector<std::string>& paths);
  [[nodiscard]] std::vector<captures::analysis::CounterDifference> differences(
      const captures::analysis::Analysis& analysis) const;
};

}  // namespace rdmawire::python
