#pragma once
/// A fuzzing session: consecutive scripts on a device. A script that causes an alarm is minimized to the shortest
/// script that causes the same alarm.
///
///     fuzzer::Session session(fuzzer::reference_target(faults), {.seed = 7});
///     session.run({.executions = 200'000});
///     for (const fuzzer::Finding& finding : session.findings()) …

#include <chrono>
#include <cstdint>
#include <deque>
#include <filesystem>
#include <functional>
#include <limits>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "conformance/fuzzer/edge_map.hpp"
#include "conformance/fuzzer/monitor_view.hpp"
#include "conformance/fuzzer/target.hpp"

namespace rdmawire::fuzzer {

/// Result of one execution of a script on new objects.
struct Replayed {
  std::optional<Alarm> alarm;     ///< first alarm
  std::size_t step = 0;           ///< step of the alarm, otherwise the last step
  std::vector<Exchanged> frames;  ///< in order, if requested
};

/// Result of minimization.
struct Minimized {
  Script script;               ///< shortest script with the same alarm
  Replayed shown{};            ///< last execution with that alarm, with frames. No alarm: not reproduced
  std::uint64_t trials = 0;    ///< executed scripts
  std::uint64_t restarts = 0;  ///< restarts of a device that a trial ended
  bool whole = true;           ///< no step or number can be removed. false: stopped at a limit
};

/// A violation by a device.
struct Finding {
  Alarm alarm;
  Script script;               ///< original script, up to the step with the alarm
  Script minimal;              ///< shortest script with the same alarm
  bool reproduced = false;     ///< the minimal script causes the alarm again
  std::uint64_t trials = 0;    ///< scripts executed for minimization
  std::uint64_t restarts = 0;  ///< device restarts for minimization
  bool whole = false;          ///< see Minimized::whole
  std::vector<Exchanged>
      frames{};                 ///< frames of the minimal script. Empty if not reproduced, or from a resumed session
  std::uint64_t seed = 0;       ///< seed of the session
  std::uint64_t execution = 0;  ///< number of the mutated step that first caused it, counted from 1
  std::uint64_t times = 1;      ///< number of occurrences
  /// Names of reference device faults with the same effect (broken_likewise).
  std::vector<std::string> like{};
  /// Ids of rules that the frames violate (broken_rules).
  std::vector<std::string> shown{};
  /// Ids of all violated rules: `shown`, and those of the faults in `like`.
  std::vector<std::string> rules{};
};

/// Kinds of edges. A script that reaches a new edge is added to the corpus.
struct Feedback {
  bool answers = true;   ///< state of the queue pair × step × response
  bool code = true;      ///< code of the device, if the target reports it
  bool monitors = true;  ///< state changes of the monitors of `rdmawire check`
};

struct SessionOptions {
  std::uint64_t seed = 1;
  bool plain = false;  ///< send random bytes in frames that are valid at the start of a connection, for comparison
  Feedback feedback{};
  bool count_all = false;  ///< also count edges of kinds that are not used as feedback, for comparison
  bool minimize = true;
  std::size_t most_findings = 64;  ///< maximum number of stored findings. Further findings are only counted
  std::size_t most_corpus = 4096;  ///< maximum number of scripts. A new script then replaces the oldest
  bool stop_at_first = false;
  std::filesystem::path corpus{};  ///< directory. Empty: keep the corpus only in memory
  bool resume = false;             ///< continue the session of the corpus
  /// Return a further mutation of a mutated step, or nothing.
  std::function<std::optional<Step>(const Step&)> mutator{};
  /// Return a description of an invalid outcome, or nothing.
  std::function<std::optional<std::string>(const Step&, const Outcome&)> oracle{};
  /// Called with the index of each new finding. The state in the corpus already contains it.
  std::function<void(std::size_t)> recorded{};
};

/// Limits of a run. 0: unlimited.
struct Budget {
  std::uint64_t executions = 0;
  double seconds = 0;
};

struct Statistics {
  std::uint64_t executions = 0;  ///< mutated steps, without those of scripts from the corpus
  std::uint64_t steps = 0;       ///< all steps
  std::uint64_t lives = 0;
  std::uint64_t connections = 0;
  std::uint64_t edges = 0;                     ///< of the feedback `answers`
  std::optional<std::uint64_t> code_edges;     ///< nullopt: the target does not count or report them
  std::optional<std::uint64_t> monitor_edges;  ///< nullopt: not counted
  std::uint64_t corpus = 0;
  std::uint64_t findings = 0;  ///< distinct findings
  std::uint64_t alarms = 0;    ///< all alarms
  std::uint64_t restarts = 0;  ///< restarts of a lost device
  double seconds = 0;
  std::array<std::uint64_t, step_kinds> by_kind{};
};

class Session {
 public:
  Session(std::unique_ptr<Target> target, SessionOptions options);
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;

  /// Run until the budget is used, `stop` returns true (called several times per second), or the device is lost
  /// permanently. Returns the error in that case. Repeated calls continue the session.
  std::optional<std::string> run(const Budget& budget, const std::function<bool(const Statistics&)>& stop = {});

  [[nodiscard]] const std::vector<Finding>& findings() const { return findings_; }
  [[nodiscard]] const Statistics& statistics() const { return statistics_; }
  [[nodiscard]] const SessionOptions& options() const { return options_; }
  [[nodiscard]] Target& target() { return *target_; }
  /// True if the target reports code coverage.
  [[nodiscard]] bool offers_code() const { return offers_code_; }
  /// Random number that distinguishes this session from others in directories. A resumed session keeps its number.
  [[nodiscard]] const std::string& id() const { return id_; }
  /// Return the edges that a script reaches on a new connection, as numbers that are distinct between the kinds. Used
  /// between two runs.
  std::vector<std::uint64_t> edges_of(const Script& script);
  /// Error of the corpus directory, if any.
  [[nodiscard]] const std::optional<std::string>& trouble() const { return trouble_; }

 private:
  std::optional<std::string> start_script();
  std::optional<std::string> one_step();
  void finish_script();
  [[nodiscard]] bool perform(const Step& step);
  [[nodiscard]] bool is_counted(bool Feedback::*kind) const { return options_.count_all || options_.feedback.*kind; }
  void report_edges();
  void found(Alarm alarm);
  std::optional<std::string> revive_and_record(Alarm alarm);
  [[nodiscard]] double left() const;
  void keep(const Script& script);
  void load_corpus();
  void load_state(const std::filesystem::path& path);
  void save_state();

  EdgeMap answers_, code_, states_;  ///< by kind of feedback. Declared before the target, which writes to `code_`
  std::unique_ptr<Target> target_;
  SessionOptions options_;
  Rng chance_{0};  ///< of the script
  std::unique_ptr<ReferenceModel> model_;
  Script script_;
  std::vector<Step> planned_;  ///< remaining steps of a corpus script, in reverse order
  bool over_ = true;           ///< the script is finished
  bool novel_ = false;         ///< the script reached a new edge
  bool alarmed_ = false;       ///< an oracle reported an alarm in the script
  std::uint64_t next_script_ = 0;
  Outcome actual_;
  bool offers_code_ = false;
  bool watched_ = false;  ///< the monitors watch this script
  MonitorView view_;
  std::vector<Exchanged> frames_;  ///< of the last step
  std::vector<Script> corpus_;
  std::uint64_t kept_ = 0;            ///< scripts added to the corpus, including replaced ones
  std::deque<Script> clean_scripts_;  ///< recent scripts without alarm
  std::vector<Finding> findings_;
  std::size_t resumed_findings_ = 0;  ///< findings of the resumed session
  std::set<std::string> signatures_;
  Statistics statistics_;
  std::string id_;
  std::optional<std::chrono::steady_clock::time_point> deadline_;  ///< of the run
  std::optional<std::string> trouble_;
};

/// Execute a script once, until the first alarm.
Replayed replay(const Script& script, Target& target, bool with_frames = false,
                const std::function<std::optional<std::string>(const Step&, const Outcome&)>& oracle = {});

/// Minimize a script that causes an alarm with this signature: remove steps first, then mutations and numbers. For
/// crashes, try the last connection with the last steps first, because each success costs a restart. A lost device and
/// a kernel message of the same or an unknown cause count as the same alarm, except for warnings. Obeys the target's
/// limits and `seconds`.
Minimized minimize(Script script, const std::string& signature, Target& target,
                   const std::function<std::optional<std::string>(const Step&, const Outcome&)>& oracle = {},
                   double seconds = std::numeric_limits<double>::infinity());

}  // namespace rdmawire::fuzzer
