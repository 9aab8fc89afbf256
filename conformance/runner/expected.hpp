#pragma once
/// Results that are known of a device and version: deviations that were examined. What is not as written here is
/// unexpected, a pass among it.

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

/// What is known of one case.
struct Known {
  Verdict verdict = Verdict::fail;
  std::optional<Verdict> instead{};  ///< that it may have, too: where times decide whether the case shows anything
  std::string reason;                ///< what the device does instead
  std::string evidence;              ///< where it was seen: a capture, a line of the device's source
  std::string right;                 ///< "specification", "device", "unclear"
  std::string until;                 ///< of a waiver: YYYY-MM-DD, after which it does not count; empty: always
};

/// A file of results, docs/certify.md:
///
///     {"format": 1, "device": "Linux rxe 6.1", "cases": {"rc.responder.…": {"verdict": "fail", "reason": "…", …}}}
///
/// A case is named by its id; a rule's id or alias stands for all of its cases. "RSP-009/as observed" is what monitors
/// see of the rule, in whatever case: verdict "fail".
class ExpectedResults {
 public:
  /// What this product itself knows of a device, conformance/expected: "rxe-6.1". Nothing where it knows none.
  static std::optional<ExpectedResults> of_device(std::string_view name);
  /// The devices that it knows.
  static std::vector<std::string> devices();
  /// An error: the file cannot be read, is not of this form, or names a rule, case or verdict that does not exist.
  static tl::expected<ExpectedResults, std::string> read(const std::filesystem::path& path);
  static tl::expected<ExpectedResults, std::string> parse(const std::string& text, const std::string& name);

  /// What is known already, where these say nothing of a case.
  void add_below(const ExpectedResults& more);
  /// All keys: ids of cases and rules, aliases.
  [[nodiscard]] std::vector<std::string> keys() const;
  /// How many there are.
  [[nodiscard]] std::size_t size() const;

  /// What is known of the case on that day (YYYY-MM-DD), or nullptr.
  [[nodiscard]] const Known* find(const Case& which, const std::string& today) const;
  /// What was known of it until a day that is past, or nullptr.
  [[nodiscard]] const Known* expired(const Case& which, const std::string& today) const;
  /// What is known of a rule as monitors see it, or nullptr.
  [[nodiscard]] const Known* find_observed(const Rule& rule, const std::string& today) const;
  /// Whether the case ended as one had to expect: as known, else no deviation and no error; and whether what monitors
  /// saw in it is known. A deviation from what a device only should do counts with `strict` alone. Of a case that was
  /// left out nothing is expected.
  [[nodiscard]] bool expects(const CaseResult& result, const std::string& today, bool strict = false) const;
  /// Rules that are known to be broken as observed, were judged in these cases, and held in all of them: an unexpected
  /// pass, if the cases are all that there are.
  [[nodiscard]] std::vector<const Rule*> held_unexpectedly(std::span<const CaseResult> results,
                                                           const std::string& today) const;

 private:
  template <class Takes>
  const Known* first(std::span<const std::string> names, const Takes& takes) const;
  using Layer = std::map<std::string, Known, std::less<>>;
  std::vector<Layer> layers_;  ///< the first that says something counts
};

/// The verdict that is called so.
std::optional<Verdict> verdict_of(std::string_view text);

/// What changed between two versions of a device's firmware, by the reports of two runs.
struct Change {
  std::string id;      ///< of the case
  std::string before;  ///< verdict; empty: it was not run
  std::string after;
  enum class Kind : std::uint8_t { worse, better, other_reason, appeared, gone } kind = Kind::worse;
  std::string was = {}, is = {};  ///< what was seen, where that is what differs
};
/// `before`: a report.json of an earlier run. Cases that ended alike are left out.
tl::expected<std::vector<Change>, std::string> compare(const std::filesystem::path& before,
                                                       std::span<const CaseResult> after);

}  // namespace rdmawire::conformance
