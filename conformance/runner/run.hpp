#pragma once
/// Runs one case and determines its verdict.

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "conformance/cases/case.hpp"
#include "conformance/runner/observe.hpp"

namespace rdmawire::conformance {

/// The verdict of one run of a repeated case.
struct Attempt {
  Verdict verdict = Verdict::pass;
  std::uint64_t seed = 0;  ///< seed of this run. --seed repeats it

  friend bool operator==(const Attempt&, const Attempt&) = default;
};

/// The verdict of a case in one row of its environment.
struct RowResult {
  ParameterRow row;
  Verdict verdict = Verdict::pass;
  const Rule* violated = nullptr;  ///< the violated rule if it is not that of the case
  bool flaky = false;              ///< its repetitions have different verdicts
};

/// A parameter whose value a case determines.
struct FixedParameter {
  Parameter parameter{};
  std::string reason;
};

struct CaseResult {
  const Case* of = nullptr;  ///< not nullptr
  Judgment judgment;
  std::vector<WireViolation> wire{};  ///< rules that frames of the device violated, independent of the tested rule
  Transcript transcript;
  Observation observed;  ///< results of the monitors for the device
  std::uint64_t seed = 0;
  std::int64_t nanoseconds = 0;         ///< duration on the wire's clock
  std::vector<Attempt> attempts;        ///< of a repeated case. The result is that of the worst run
  std::vector<std::string> complaints;  ///< kernel messages of the device during the case
  bool left_out = false;                ///< a slow or dangerous case that was skipped
  ParameterRow row = default_row();     ///< the row of this result
  /// All rows in the order of their runs. The result is that of the worst one. Empty: only the default row ran.
  std::vector<RowResult> rows{};
  ParameterSet free = 0;                ///< the parameters that the rows vary
  std::vector<FixedParameter> fixed{};  ///< the parameters that the case uses and determines
  bool blocked = false;                 ///< did not run, because the transfer that opens the run failed

  /// Returns whether the verdicts of the attempts of a row differ.
  [[nodiscard]] bool flaky() const;
};

/// Derives the seed of a case, which is independent of the cases before it.
std::uint64_t seed_of(const Case& which, std::uint64_t seed_of_run);

/// Runs one case with newly created objects of the device, in one row of its environment.
CaseResult run_case(const Case& which, DeviceUnderTest& device, std::uint64_t seed,
                    const ParameterRow& row = default_row());

/// Adds the result of a further row of a case. `all` then contains the result of the worst row, or of the one with the
/// fewest values other than defaults, with the counters of all rows.
void add_row(CaseResult& all, CaseResult row);

/// Returns whether verdict `a` takes precedence over `b` in a report.
bool is_worse(Verdict a, Verdict b);

}  // namespace rdmawire::conformance
