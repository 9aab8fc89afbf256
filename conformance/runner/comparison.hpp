#pragma once
/// Comparison of two runs, e.g. of two firmware versions.

#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <tl/expected.hpp>
#include <vector>

#include "conformance/runner/run.hpp"

namespace rdmawire::conformance {

/// The result of a case as a report contains it.
struct Outcome {
  std::string id, verdict, actual = {};
  std::int64_t nanoseconds = 0;
  bool unexpected = false, waived = false;
  std::size_t attempts = 0;             ///< with --repeat
  std::vector<std::string> observed{};  ///< ids of the rules whose violation monitors observed
  bool verdict_waived = false;          ///< by a waiver of the case itself
  ParameterRow row = default_row();     ///< the row of the result

  [[nodiscard]] bool failed() const;
};

/// The results of a run, and its circumstances.
struct Outcomes {
  std::string program, date, device, details, partial;  ///< empty: not specified
  std::uint64_t seed = 0;
  unsigned strength = 0;
  std::vector<Outcome> cases;
};

/// Parses report.json. The error contains `name`, and the case or member.
tl::expected<Outcomes, std::string> parse_outcomes(const std::string& text, const std::string& name);
/// Reads report.json, or the report.json of a report directory.
tl::expected<Outcomes, std::string> read_outcomes(const std::filesystem::path& path);

/// A case is slower if its duration grows by at least this factor and at least this time.
struct SlowerLimits {
  double factor = 1.5;
  std::int64_t nanoseconds = 100'000'000;
};

/// A difference between two runs.
struct Change {
  std::string id;      ///< id of the case
  std::string before;  ///< verdict. Empty: not run
  std::string after;
  enum class Kind : std::uint8_t {
    worse,         ///< a failure, or no result (unsupported, inconclusive) in place of a pass, or a monitor violation
    better,        ///< the reverse
    other_reason,  ///< another verdict or reason
    appeared,      ///< not in the earlier run
    gone,          ///< not in the later run
    slower,        ///< the same verdict, later
  } kind = Kind::worse;
  std::string was = {}, is = {};  ///< the actual behavior, if it differs
  std::int64_t was_ns = 0, is_ns = 0;
  bool waived = false;  ///< the later result is waived
  /// Ids of rules whose violation monitors observed only in the later run, or if it is better, only in the earlier run.
  std::vector<std::string> observed{};

  /// True if the later run is worse: worse, slower or gone, or new with a failure or violation. False if it is waived.
  [[nodiscard]] bool is_regression() const;
};
std::string_view to_string(Change::Kind kind);

/// Compares two runs. Omits cases with the same result. Without `slower`, durations are ignored.
std::vector<Change> compare(std::span<const Outcome> before, std::span<const Outcome> after,
                            const std::optional<SlowerLimits>& slower = {});
/// Compares with report.json of an earlier run (`before`).
tl::expected<std::vector<Change>, std::string> compare(const std::filesystem::path& before,
                                                       std::span<const CaseResult> after);

}  // namespace rdmawire::conformance
