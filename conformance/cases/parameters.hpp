#pragma once
/// Parameters of cases as data, and rows that combine their values.
///
/// Most faults depend on a value or on a pair of values: a length of exactly one MTU, a PSN that wraps inside a
/// message, a second queue pair. A parameterized case is written once. It declares its parameters, and runs once for
/// each row of a covering array: a set of rows in which each pair of values occurs at least once. Each row is a Case of
/// its own, so that known results, reports, `--only` and `--resume` work without a change. transfers.cpp is the first
/// file of such cases.
///
/// Steps for a new parameter: add its values to the declaration, its field to the row's structure, and its effect to
/// the steps that set up the connection. Values that not every device supports belong in separate rows after those in
/// `given`, so that all other pairs are tested on every device. An expectation that depends on a parameter is computed
/// in the case, from the clause.
///
/// The number of rows increases with the product of the two largest parameters and with the logarithm of their number,
/// so further parameters of the catalog (access rights, SGEs, max_rd_atomic, history, …) need few further rows.

#include <cstddef>
#include <functional>
#include <limits>
#include <vector>

namespace rdmawire::conformance {

/// The index of a value for each parameter.
using ParameterRow = std::vector<std::size_t>;
/// A parameter without a value yet.
inline constexpr std::size_t unset_parameter = std::numeric_limits<std::size_t>::max();

struct CoveringOptions {
  std::vector<std::size_t> values{};  ///< the number of values of each parameter
  unsigned strength = 2;              ///< size of the combinations that occur: 2 for pairs
  /// Returns whether a row is possible. If some parameters are unset: whether possible values exist for them. Empty:
  /// every row is possible.
  std::function<bool(const ParameterRow&)> allowed{};
  std::vector<ParameterRow> given{};  ///< rows that exist already. They are the first rows of the result
};

/// Returns rows that contain each possible combination at least once. Deterministic.
std::vector<ParameterRow> covering_rows(const CoveringOptions& options);

/// The combinations of a covering array.
struct CombinationCounts {
  std::size_t existing = 0;  ///< without constraints
  std::size_t possible = 0;  ///< with constraints
  std::size_t covered = 0;   ///< contained in the rows
};
CombinationCounts count_combinations(const CoveringOptions& options, const std::vector<ParameterRow>& rows);

}  // namespace rdmawire::conformance
