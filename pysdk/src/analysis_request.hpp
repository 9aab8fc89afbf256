#pragma once
/// What is asked of an analysis, from the words that Python gives: for one machine and for many.

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "captures/analysis/counters.hpp"
#include "captures/analysis/run.hpp"
#include "dissectors/output/filter.hpp"

namespace rdmawire::python {

/// What is analyzed; tables read it anew.
struct AnalysisRequest {
  captures::analysis::RunOptions run;
  std::shared_ptr<const output::Filter> filter;  ///< what run.filter points to

  /// The first file that can be read only once.
  [[nodiscard]] std::optional<std::string> stream() const;
};

/// A request without files and boundaries. Raises UsageError: the filter is none, or asks for CRCs that are not
/// verified; a word of `ignore` names no evidence.
AnalysisRequest analysis_request(const std::string& filter, std::uint64_t connection,
                                 const std::vector<std::string>& ignore, std::uint16_t roce_port, bool verify_crcs);

/// "12.5", "2026-11-21T07:53:37", "frame:214"; empty: none. Raises UsageError, which calls it `name`.
captures::analysis::Boundary boundary_of(const char* name, const std::string& said);

/// What an analysis is compared with.
struct HostCounters {
  captures::analysis::Counters before, after;
  bool compares = false;
  /// `paths`: of none, one (after) or two files (before, after). Raises UsageError and CaptureError.
  static HostCounters read(const std::vector<std::string>& paths);
  [[nodiscard]] std::vector<captures::analysis::CounterDifference> differences(
      const captures::analysis::Analysis& analysis) const;
};

}  // namespace rdmawire::python
