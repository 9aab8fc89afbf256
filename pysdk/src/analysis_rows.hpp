#pragma once
/// Tracking results as rows: messages, events, connections, and packets with their role in the connection.

#include <memory>
#include <optional>
#include <string>
#include <tl/expected.hpp>

#include "captures/analysis/partition.hpp"
#include "pysdk/src/analysis_request.hpp"
#include "pysdk/src/columns.hpp"

namespace rdmawire::python {

/// Returns the table "messages", "events", "connections" or "packets". The columns are named as in the CSV files
/// (docs/reference/analyze-report.md). Rows are in the order in which tracking reports them. Returns an error for an
/// unknown kind.
tl::expected<std::shared_ptr<TableSource>, std::string> analysis_table(std::shared_ptr<const AnalysisRequest> request,
                                                                       const std::string& kind);

/// The rows of one shard of a divided capture (partition.hpp). The rows of all shards are the rows of one process. Rows
/// of one connection keep their order.
class ShardRows {
 public:
  /// Files, boundaries and threads of `request` are ignored. Returns an error for an unknown kind.
  static tl::expected<std::unique_ptr<ShardRows>, std::string> of(const AnalysisRequest& request,
                                                                  const std::string& kind);
  virtual ~ShardRows() = default;
  [[nodiscard]] virtual captures::analysis::ShardTracker& tracker() = 0;
  /// Returns the rows after finish(). They can be read once.
  [[nodiscard]] virtual std::shared_ptr<TableSource> table() = 0;
};

}  // namespace rdmawire::python
