#pragma once
/// What tracking tells, as rows: messages, events, connections, and packets with what they are to their connection.

#include <memory>
#include <optional>
#include <string>
#include <tl/expected.hpp>

#include "captures/analysis/partition.hpp"
#include "pysdk/src/analysis_request.hpp"
#include "pysdk/src/columns.hpp"

namespace rdmawire::python {

/// The table of that kind: "messages", "events", "connections" or "packets". Its columns are called as in the CSV files
/// (docs/reference/analyze-report.md); rows stand in the order in which things became known. An error: there is no such
/// kind.
tl::expected<std::shared_ptr<TableSource>, std::string> analysis_table(std::shared_ptr<const AnalysisRequest> request,
                                                                       const std::string& kind);

/// The rows of one share of captures that were divided (partition.hpp): what shares add are the rows of one machine.
/// Rows of one connection stand in the order that they have there.
class ShareRows {
 public:
  /// `request`: files, boundaries and threads mean nothing. An error: there is no such kind.
  static tl::expected<std::unique_ptr<ShareRows>, std::string> of(const AnalysisRequest& request,
                                                                  const std::string& kind);
  virtual ~ShareRows() = default;
  [[nodiscard]] virtual captures::analysis::ShardTracker& tracker() = 0;
  /// The table of what was tracked until finish(), to be read once.
  [[nodiscard]] virtual std::shared_ptr<TableSource> table() = 0;
};

}  // namespace rdmawire::python
