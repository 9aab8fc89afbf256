#pragma once
/// Runs cases: in parallel if there are several devices, with a time limit for each, across device losses, and
/// repeatedly if requested. Results are in the order of the cases.

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "conformance/runner/run.hpp"
#include "conformance/runner/target.hpp"
#include "conformance/runner/transfer.hpp"

namespace rdmawire::conformance {

/// Larger combinations need too many rows.
inline constexpr unsigned most_strength = 3;

using OpenTarget = std::function<tl::expected<std::unique_ptr<Target>, TargetError>(Family)>;

/// Maximum number of workers. Each worker has a device and two threads.
inline constexpr unsigned most_jobs = 64;

struct CertifyOptions {
  std::uint64_t seed = 1;
  /// Opens a device for cases of a family. Called by one thread at a time: for each worker, after each device loss, and
  /// for each run of a case if `fresh`.
  OpenTarget open;
  bool fresh = false;  ///< open a new device for each case, so that results are independent of earlier cases
  unsigned jobs = 1;   ///< number of workers. Limited by most_jobs, the number of cases and the system
  unsigned repeat = 1;
  /// Size of the combinations of parameter values that the rows of each case contain. 0: only the default row.
  unsigned strength = 0;
  /// Runs only this row of each case.
  std::optional<ParameterRow> row{};
  /// Real time after which no further row starts. The rows of all cases are then ordered so that the most combinations
  /// are tested first, and results are complete only at the end. 0: none
  std::chrono::milliseconds budget{0};
  std::chrono::milliseconds case_timeout{60'000};  ///< real time for a case and the transfer after it
  std::chrono::milliseconds timeout{0};            ///< real time for all cases. 0: none
  unsigned most_losses = 5;                        ///< the run ends after this number of consecutive device losses
  int stop = -1;                                   ///< file descriptor. When readable, running cases are stopped
  /// Called for each result, in any order, by one thread at a time.
  std::function<void(const CaseResult&)> on_end;
  /// Called like on_end, with the result of the rows so far, in a run with a budget: after the first row of a case, and
  /// after its first failed one.
  std::function<void(const CaseResult&)> on_checkpoint{};
  /// Called like on_end, instead of it, for a case of which some rows did not run because the run was interrupted.
  std::function<void(const CaseResult&)> on_interrupted{};
};

/// A rule that every transfer needs and that the device violates.
struct BasicViolation {
  Family family = Family::infiniband;
  Judgment judgment;  ///< with a rule
};

struct Certification {
  std::vector<CaseResult> results;      ///< of the cases that ran, in order
  std::string partial;                  ///< why some cases or rows did not run. Empty: all ran, or the budget was spent
  std::size_t abandoned = 0;            ///< cases that still block threads of this process
  std::vector<BasicViolation> basic{};  ///< violations by the transfer that opens the run, at most one for each family
};

/// Runs the cases. `first`: an open device, or nullptr.
///
/// A transfer before the first case on a device and after each case checks device, agent and wire. The device is
/// reopened if the transfer fails twice, objects of the case remain, the case exceeds its time, or the device is lost.
/// The case then ends with Verdict::error, with Verdict::fail if the device itself crashed, or with its own failure.
/// Its further rows do not run.
///
/// If the transfer that opens the run violates a rule that every transfer needs, only the cases of this rule run. The
/// others are inconclusive.
Certification certify(std::span<const Case* const> which, const CertifyOptions& options,
                      std::unique_ptr<Target> first = nullptr);

}  // namespace rdmawire::conformance
