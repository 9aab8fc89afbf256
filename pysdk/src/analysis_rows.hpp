#pragma once
/// What tracking tells, as rows: messages, events, connections, and packets with what they are to their connection.

#include <memory>
#include <optional>
#include <string>
#include <tl/expected.hpp>

#include "captures/analysis/run.hpp"
#include "dissectors/faces/filter.hpp"
#include "pysdk/src/columns.hpp"

namespace rdmawire::python {

/// What is analysed; tables read it anew.
struct AnalysisRequest {
  captures::analysis::RunOptions run;
  std::shared_ptr<const faces::Filter> filter;  ///< what run.filter points to

  /// The first file that can be read only once.
  [[nodiscard]] std::optional<std::string> stream() const;
};

/// The table of that kind: "messages", "events", "connections" or "packets". Its columns are called as in the CSV files
/// (docs/analyze.md); rows stand in the order in which things became known. An error: there is no such kind.
tl::expected<std::shared_ptr<TableSource>, std::string> analysis_table(std::shared_ptr<const AnalysisRequest> request,
                                                                       const std::string& kind);

}  // namespace rdmawire::python
