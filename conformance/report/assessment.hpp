#pragma once
/// An assessment runs cases against a device, from opening the device to writing the report. Shared by the command and
/// the Python package, which print progress themselves.

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <tl/expected.hpp>
#include <vector>

#include "conformance/report/ics.hpp"
#include "conformance/report/report.hpp"
#include "conformance/runner/certify.hpp"

namespace rdmawire::conformance {

struct AssessmentOptions {
  TargetOptions target;            ///< the assessment sets seed and family
  std::vector<const Case*> cases;  ///< the selected cases, in order
  bool all_cases = false;          ///< the selection contains all cases
  std::uint64_t seed = 0;          ///< 0: the seed of the resumed run, otherwise a random one
  unsigned jobs = 0;               ///< number of devices in parallel. 0: one for each core for references, otherwise 1
  unsigned repeat = 1, most_losses = 5;
  unsigned strength = 0;                         ///< see CertifyOptions::strength
  std::optional<ParameterRow> row{};             ///< see CertifyOptions::row
  double budget = 0;                             ///< seconds of real time, see CertifyOptions::budget. 0: none
  double case_timeout = 0;                       ///< seconds of real time. 0: 60, or 600 with slow cases
  double timeout = 0;                            ///< seconds of real time for all cases. 0: none
  bool strict = false;                           ///< treat "should" rules like "shall" rules
  bool known = true;                             ///< use the built-in known results of lab devices
  std::filesystem::path expected{}, baseline{};  ///< files. Empty: none
  std::filesystem::path waivers{};               ///< file. Its results override `expected`. Empty: none
  /// File of the clause numbers in use, for the evidence package. The caller reads it: see use_clause_numbers().
  std::filesystem::path clauses{};
  std::filesystem::path report{};    ///< directory for the reports. Empty: none
  bool overwrite = false;            ///< replace the report of another run in `report`
  std::filesystem::path resume{};    ///< report directory of the run to resume. Replaces `report`
  std::filesystem::path ics_file{};  ///< the file of `ics`, for the evidence package
  std::optional<Ics> ics{};          ///< the device's conformance statement. The caller applies its IXIT
  std::filesystem::path sign{};      ///< Ed25519 private key (PEM) for the manifest. Empty: not signed
  /// Options of `rdmawire certify` that select and configure the device. nullopt: the command cannot open it.
  std::optional<std::vector<std::string>> arguments{};
  std::vector<std::string> patterns{};  ///< the selection of the cases, for the manifest
  std::string shard{};                  ///< the shard of the selection, for the manifest: "1/4". Empty: all
  /// Opens the device. Empty: Target::open.
  std::function<tl::expected<std::unique_ptr<Target>, TargetError>(const TargetOptions&)> open{};
  /// An open device to use instead. If it is lost, the assessment ends.
  std::unique_ptr<Target> given{};
};

/// Receives the progress of an assessment. Calls come from one thread at a time.
class AssessmentListener {
 public:
  AssessmentListener() = default;
  AssessmentListener(const AssessmentListener&) = delete;
  AssessmentListener& operator=(const AssessmentListener&) = delete;
  virtual ~AssessmentListener() = default;

  /// Called with the name under which results may be known. `found`: whether known results exist.
  virtual void known(const std::string& /*device*/, bool /*found*/) {}
  /// Called when a device other than an in-process one is open and will receive frames.
  virtual void opened(Target& /*target*/) {}
  /// Called with the results of the checks before the run.
  virtual void looked(const std::vector<Finding>& /*findings*/) {}
  /// Called with the cases of the run, including resumed results, in order. `report` is still empty and stays valid.
  virtual void begins(std::span<const Case* const> /*cases*/, const Report& /*report*/) {}
  /// Called for each result, in any order. `earlier`: a result of the resumed run.
  virtual void took(const CaseResult& /*result*/, bool /*earlier*/) {}
  /// Called after the last result.
  virtual void ended() {}
};

/// The cause of a failed assessment.
struct AssessmentError {
  enum class Kind : std::uint8_t {
    usage,   ///< invalid options
    device,  ///< the device is unreachable
    bench,   ///< the bench is unsuitable (AssessmentListener::looked has the details)
    file,    ///< the report directory is not writable
  };
  Kind kind = Kind::usage;
  std::string message;
};

/// A finished assessment.
class Assessment {
 public:
  /// Runs an assessment. `options.target.stop` stops it early. The report then covers the cases that ran.
  static tl::expected<std::shared_ptr<Assessment>, AssessmentError> run(AssessmentOptions options,
                                                                        AssessmentListener& listener);
  Assessment() = default;
  Assessment(const Assessment&) = delete;
  Assessment& operator=(const Assessment&) = delete;

  ExpectedResults expected;  ///< known results of the device, given or built in
  Report report;
  std::size_t abandoned = 0;             ///< cases that still block threads of this process
  std::vector<std::string> troubles;     ///< write errors, one sentence each
  std::vector<std::string> foreign;      ///< files in the report directory that the report does not contain
  std::vector<const Case*> unexpected;   ///< cases with unexpected results
  std::vector<const Rule*> basic;        ///< unknown violations of rules that every transfer needs
  std::vector<IcsFinding> ics_failures;  ///< statements that the device contradicts itself
  std::vector<const Case*> expired;      ///< failed cases whose waiver has ended
  std::vector<const Rule*> unlike_them;  ///< rules that passed although they are known to be violated

  /// Returns whether a result is unexpected.
  [[nodiscard]] bool is_unexpected() const {
    return !unexpected.empty() || !basic.empty() || !unlike_them.empty() || !ics_failures.empty();
  }
};

/// Compares the results of `made.report` with the known results of `made.expected` and with the ICS. `all_cases`: the
/// selection contains all cases. Call after report.results, .basic and .date are set.
void evaluate(Assessment& made, const std::optional<Ics>& ics, const ReportedCapabilities& reported, bool all_cases);
/// Returns why one of the injected faults cannot be tested: wrong device, unknown fault, or no case of its family.
/// Empty if all can.
std::string in_vain(const TargetOptions& target, std::span<const Case* const> cases);
/// Uses the values of an IXIT for the options that `is_given` does not name. The names are those of the command:
/// "--device".
void apply_ixit(const Ixit& ixit, AssessmentOptions& options,
                const std::function<bool(const std::string& option)>& is_given);
/// One of several shards: 1 of 4.
struct Shard {
  unsigned index = 1, count = 1;
};
/// Parses "1/4".
tl::expected<Shard, std::string> parse_shard(std::string_view text);
/// Parses a duration in seconds with an optional unit: "90", "90s", "10m", "8h". At most one year.
tl::expected<double, std::string> parse_duration(std::string_view text);
/// Returns the cases of one of `count` shards, index 1 to `count`. The shards are disjoint, and their union is `cases`.
/// Neighbors, which often have similar durations, are in different shards.
std::vector<const Case*> shard_of(std::span<const Case* const> cases, unsigned index, unsigned count);
/// The failed and unexpected cases of an earlier run. `seed`, `repeat` and `strength`: those of the run.
struct FailedCases {
  std::vector<const Case*> cases;
  std::uint64_t seed = 0;
  unsigned repeat = 1, strength = 0;
  std::optional<ParameterRow> row;  ///< of a run with a single row: the values that the failed cases use
  std::string partial;              ///< why other cases have no result. Empty: all ran
};
/// Reads report.json, or a report directory. The error names an unknown case.
tl::expected<FailedCases, std::string> failed_cases(const std::filesystem::path& path);

/// Returns whether a pattern (with `*` and `?`) matches the id or alias of the case's rule, or equals the case's id.
/// True without patterns.
bool is_chosen(const Case& which, std::span<const std::string> patterns);

}  // namespace rdmawire::conformance
