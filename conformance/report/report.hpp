#pragma once
/// Reports of a run: text, JSON, JUnit, HTML and captures.

#include <cstdint>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <tl/expected.hpp>
#include <vector>

#include "conformance/report/ics.hpp"
#include "conformance/runner/certify.hpp"
#include "conformance/runner/comparison.hpp"
#include "conformance/runner/expected.hpp"
#include "conformance/runner/preflight.hpp"
#include "conformance/runner/run.hpp"

namespace rdmawire::conformance {

/// Printed in every report.
inline constexpr std::string_view disclaimer =
    "Clauses reflect our reading of the specifications. This is no certification by IBTA, UNH-IOL or any other body.";

/// One run of cases against one device.
struct Report {
  std::string device;   ///< "lab:rxe"
  std::string details;  ///< description of the device and its host: "Linux 6.1.0-30-amd64, rxe0"
  std::uint64_t seed = 0;
  std::int64_t nanoseconds = 0;
  std::vector<CaseResult> results;
  std::string partial = {};                ///< why some selected cases did not run. Empty: all ran
  std::vector<BasicViolation> basic = {};  ///< rules that every transfer needs and that the device violates
  std::vector<Finding> preflight = {};     ///< results of the checks before the run
  std::vector<IcsFinding> ics = {};        ///< the statements of the ICS compared with the device
  std::vector<Change> changes = {};        ///< differences from an earlier run
  std::string date = {};                   ///< date of the run, YYYY-MM-DD. Empty: not specified
  /// Known results of the device. nullptr: none. Not owned.
  const ExpectedResults* expected = nullptr;
  unsigned strength = 0;  ///< size of the combinations of parameter values that the rows of each case contain
  /// The parameter values that the device supports, by family. Only with a strength.
  std::map<Family, EnvironmentLimits> limits = {};
  /// The combinations of parameter values of all cases. nullopt: combinations_of() counts them in the rows.
  std::optional<CombinationCounts> combinations = {};
  bool strict = false;  ///< violations of "should" rules are unexpected, too
  /// Options of `rdmawire certify` that select and configure the device, for the command lines that repeat a case.
  /// nullopt: the command cannot open this device.
  std::optional<std::vector<std::string>> arguments = {};

  [[nodiscard]] std::map<Verdict, std::size_t> counts() const;
  /// Results of the monitors in all cases, by rule.
  [[nodiscard]] Observation observed() const;
  /// The monitored rules of the families of the cases.
  [[nodiscard]] std::vector<RuleId> watched() const;
};

/// How a result compares with the known results of the device.
enum class Disposition : std::uint8_t {
  expected,    ///< no failure
  known,       ///< a known failure, or another known result
  waived,      ///< a known failure until a day that has not passed
  expired,     ///< unexpected: its waiver has ended
  unexpected,  ///< a failure, or another result than the known one
};
std::string_view to_string(Disposition disposition);
Disposition disposition_of(const CaseResult& result, const Report& report);
/// A known result, or an expired one, that applies to a result.
struct Applied {
  const Known* known = nullptr;  ///< not nullptr
  std::string of;                ///< "RSP-009 as observed": a rule that monitors or frames violate. Empty: the case
  bool expired = false;
  bool of_verdict = false;  ///< applies to the verdict of the case
};
/// The known results that apply to a result, and the expired ones that applied earlier.
std::vector<Applied> applied_to(const CaseResult& result, const Report& report);
/// "RSP-009 as observed: waived until 2027-06-30: REASON"
std::string text_of(const Applied& applied);
/// The reasons of the known results, with the end of their waivers, and for an unexpected pass its cause. Empty: none.
std::string remark_of(const CaseResult& result, const Report& report);

/// The value of --seed that repeats the result.
std::uint64_t run_seed_of(const CaseResult& result, const Report& report);
/// The command line that repeats a failed case. Empty if the case did not fail, or if the command cannot open the
/// device.
std::string repeat_command(const CaseResult& result, const Report& report);
/// A word of a POSIX shell, quoted if necessary.
std::string shell_word(std::string_view text);

/// A case as text: its verdict, and expected and actual behavior on failure. `steps`: the whole transcript.
std::string text_of(const CaseResult& result, bool steps);
/// "of 3 runs 2 pass, 1 fail"
std::string attempts_of(const CaseResult& result);
/// Number of cases by verdict, the results of the monitors, and why a run is partial, one line each.
std::string summary(const Report& report);

/// The report as JSON, see docs/reference/certify-report.md and docs/reference/schemas/certify.schema.json.
nlohmann::ordered_json to_json(const Report& report);
/// A case as JSON, without its known result and with at most its first 1000 and last 200 steps.
nlohmann::ordered_json to_json(const CaseResult& result);
/// Parses the JSON of a case. Returns nullopt if it is malformed or the case does not exist.
std::optional<CaseResult> result_of(const nlohmann::json& json);
/// All steps of a transcript as JSON.
nlohmann::ordered_json steps_json(const Transcript& transcript);
/// Returns the first and last steps, with a note in place of the omitted ones.
Transcript abridged(const Transcript& all, std::size_t first, std::size_t last);
/// The report in JUnit XML: a suite for each group of rules, a failure for each violation. Unsupported and inconclusive
/// cases are skipped.
std::string to_junit(const Report& report);

/// The report as one self-contained HTML page, with the dissected frames. `captures`: directory of the captures
/// relative to the page. Empty: none. The size is bounded: 400 steps of each case, 256 bytes of each frame.
std::string to_html(const Report& report, std::string_view captures);
/// The file name of a case's capture, derived from its id.
std::string capture_name(const CaseResult& result);

/// Writes the frames of a case, with its steps as comments, to a pcapng file in `directory`/captures. Creates the
/// directory.
tl::expected<void, std::string> write_capture(const CaseResult& result, const std::filesystem::path& directory);
/// Writes report.json, junit.xml, index.html and the traceability matrix to the directory with the captures. Creates
/// the directory. The error contains path and cause.
tl::expected<void, std::string> write(const Report& report, const std::filesystem::path& directory);

}  // namespace rdmawire::conformance
