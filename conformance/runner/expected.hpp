#pragma once
/// Known results of a device and version: examined violations. Any other result is unexpected, including a pass of a
/// case that is known to fail.

#include <array>
#include <filesystem>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <tl/expected.hpp>
#include <vector>

#include "conformance/runner/run.hpp"

namespace rdmawire::conformance {

/// The known result of a case.
struct Known {
  Verdict verdict = Verdict::fail;
  std::optional<Verdict> instead{};  ///< alternative verdict, if the result depends on timing
  std::string reason;                ///< the device's behavior
  std::string evidence;              ///< a capture or a source line of the device
  std::string right;                 ///< who is right: "specification", "device", "unclear"
  std::string until;                 ///< last day of the known result, YYYY-MM-DD. Empty: no limit
  std::string approved_by;           ///< the person who accepted it
  bool waiver = false;               ///< of a file of waivers: a pass is expected, too
};

/// The kind of a file of known results.
enum class ResultsFile : std::uint8_t {
  expected,
  waivers,  ///< every result requires an end date
};

/// A file of known results, see docs/how-to/test-a-nic.md:
///
///     {"format": 1, "device": "Linux rxe 6.1", "cases": {"rc.responder.…": {"verdict": "fail", "reason": "…", …}}}
///
/// A file of waivers has the same form. A key is the id of a case, or the id or alias of a rule for all of its cases.
/// "RSP-009/as observed" is the result of the monitors for the rule, regardless of the case, with verdict "fail".
class ExpectedResults {
 public:
  /// Returns the built-in results of a device from conformance/expected ("rxe-6.1"), or nullopt.
  static std::optional<ExpectedResults> of_device(std::string_view name);
  /// The devices with built-in results.
  static std::vector<std::string> devices();
  /// Reads a file. Fails if it is unreadable, malformed, or contains an unknown rule, case or verdict.
  static tl::expected<ExpectedResults, std::string> read(const std::filesystem::path& path,
                                                         ResultsFile file = ResultsFile::expected);
  static tl::expected<ExpectedResults, std::string> parse(const std::string& text, const std::string& name,
                                                          ResultsFile file = ResultsFile::expected);

  /// Adds results with lower precedence.
  void add_below(const ExpectedResults& more);
  /// All keys: ids of cases and rules, and aliases.
  [[nodiscard]] std::vector<std::string> keys() const;
  /// The number of known results.
  [[nodiscard]] std::size_t size() const;

  /// Returns the known result of the case on the given day (YYYY-MM-DD), or nullptr.
  [[nodiscard]] const Known* find(const Case& which, const std::string& today) const;
  /// Returns the expired known result of the case, or nullptr.
  [[nodiscard]] const Known* expired(const Case& which, const std::string& today) const;
  /// Returns the known monitor result of a rule, or nullptr.
  [[nodiscard]] const Known* find_observed(const Rule& rule, const std::string& today) const;
  /// Returns the expired known monitor result of a rule, or nullptr.
  [[nodiscard]] const Known* expired_observed(const Rule& rule, const std::string& today) const;
  /// Returns whether the result is expected: the known verdict, otherwise neither failure nor error, and only known
  /// monitor violations. Violations of "should" rules count only if `strict`. A skipped case is always expected.
  [[nodiscard]] bool expects(const CaseResult& result, const std::string& today, bool strict = false) const;
  /// Returns the rules that monitors are known to report as violated, but that only passed in these cases. Meaningful
  /// only if the results are those of all cases.
  [[nodiscard]] std::vector<const Rule*> held_unexpectedly(std::span<const CaseResult> results,
                                                           const std::string& today) const;

 private:
  template <class Takes>
  const Known* first(std::span<const std::string> names, const Takes& takes) const;
  using Layer = std::map<std::string, Known, std::less<>>;
  std::vector<Layer> layers_;  ///< by decreasing precedence
};

/// Parses the name of a verdict.
std::optional<Verdict> verdict_of(std::string_view text);

}  // namespace rdmawire::conformance
