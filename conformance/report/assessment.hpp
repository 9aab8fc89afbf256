#pragma once
/// An assessment: cases run against a device, from the device's name to the report that is written. What the command
/// and the Python package have in common; what they say of it, and to whom, is theirs.

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <tl/expected.hpp>
#include <vector>

#include "conformance/report/report.hpp"
#include "conformance/runner/certify.hpp"

namespace rdmawire::conformance {

struct AssessmentOptions {
  TargetOptions target;            ///< seed and family are the assessment's to say
  std::vector<const Case*> cases;  ///< that were asked for, in their order
  bool all_cases = false;          ///< nothing was left out of those that there are
  std::uint64_t seed = 0;          ///< 0: that of the run that goes on, else another one each time
  unsigned jobs = 0;               ///< devices at once; 0: of references one a core, else one
  unsigned repeat = 1, most_losses = 5;
  double case_timeout = 0;                       ///< seconds of the real clock; 0: 60, with slow cases 600
  double timeout = 0;                            ///< seconds for all; 0: none
  bool strict = false;                           ///< what a device should do counts like what it shall do
  bool known = true;                             ///< what is built in of the lab's devices counts
  std::filesystem::path expected{}, baseline{};  ///< files; empty: none
  std::filesystem::path report{};                ///< a directory for what is left of it; empty: none
  std::filesystem::path resume{};                ///< in its place: the directory of a run that goes on
  /// How a device is opened; nothing: as Target::open does.
  std::function<tl::expected<std::unique_ptr<Target>, TargetError>(const TargetOptions&)> open{};
  /// A device that is open already, in place of one that is opened: a lost one ends the assessment.
  std::unique_ptr<Target> given{};
};

/// Hears of an assessment while it goes on. Calls come from one thread at a time.
class AssessmentListener {
 public:
  AssessmentListener() = default;
  AssessmentListener(const AssessmentListener&) = delete;
  AssessmentListener& operator=(const AssessmentListener&) = delete;
  virtual ~AssessmentListener() = default;

  /// The device as which results may be known; `found`: some are.
  virtual void known(const std::string& /*device*/, bool /*found*/) {}
  /// The device is open, and is no cheap one: it is sent frames from now on.
  virtual void opened(Target& /*target*/) {}
  /// What was looked at on a bench before anything is judged.
  virtual void looked(const std::vector<Finding>& /*findings*/) {}
  /// The cases that run, or have run before, in their order. `report` has no results yet; it stays.
  virtual void begins(std::span<const Case* const> /*cases*/, const Report& /*report*/) {}
  /// A result, in any order; `earlier`: of the run that goes on.
  virtual void took(const CaseResult& /*result*/, bool /*earlier*/) {}
  /// No more results.
  virtual void ended() {}
};

/// Why an assessment gave no result.
struct AssessmentError {
  enum class Kind : std::uint8_t {
    usage,   ///< what was asked for makes no sense
    device,  ///< the device could not be reached
    bench,   ///< it could, and is not fit to be judged: told to AssessmentListener::looked
    file,    ///< the report's directory cannot be written
  };
  Kind kind = Kind::usage;
  std::string message;
};

/// One that is over.
class Assessment {
 public:
  /// Runs it. `options.target.stop` ends it early, and the report is of what ran.
  static tl::expected<std::shared_ptr<Assessment>, AssessmentError> run(AssessmentOptions options,
                                                                        AssessmentListener& listener);
  Assessment() = default;
  Assessment(const Assessment&) = delete;
  Assessment& operator=(const Assessment&) = delete;

  ExpectedResults expected;  ///< what the user and this product know of the device
  Report report;
  std::size_t abandoned = 0;             ///< cases that still hang in threads of this process
  std::vector<std::string> troubles;     ///< what could not be written, one sentence each
  std::vector<const Case*> unexpected;   ///< whose results are news
  std::vector<const Rule*> unlike_them;  ///< rules that monitors saw held, and that are known to be broken

  /// Whether anything is news.
  [[nodiscard]] bool is_news() const { return !unexpected.empty() || !unlike_them.empty(); }
};

/// Why one of the faults that a device is to be broken by would show in none of these cases; empty: each can.
std::string in_vain(const TargetOptions& target, std::span<const Case* const> cases);
/// Whether a rule's id or alias, or the case's own id, is one of the patterns (`*` and `?`); all are where there are
/// none.
bool is_chosen(const Case& which, std::span<const std::string> patterns);

}  // namespace rdmawire::conformance
