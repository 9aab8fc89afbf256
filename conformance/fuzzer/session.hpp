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

/// Result of executing a script on new objects.
struct Replayed {
  std::optional<Alarm> alarm;     ///< first alarm
  std::size_t step = 0;           ///< index of the step with the alarm, otherwise of the last step
  std::vector<Exchanged> frames;  ///< all frames in order. Empty if not requested
};

/// Result of minimization.
struct Minimized {
  Script script;               ///< shortest script with the same alarm
  Replayed shown{};            ///< last execution that caused the alarm, with frames. Without alarm: not reproduced
  std::uint64_t trials = 0;    ///< number of executed scripts
  std::uint64_t restarts = 0;  ///< number of restarts after a trial that ended the device
  bool whole = true;           ///< true: no step or number can be removed. false: a limit was reached
};

/// A violation by a device.
struct Finding {
  Alarm alarm;
  Script script;               ///< original script, up to the step with the alarm
  Script minimal;              ///< shortest script with the same alarm
  bool reproduced = false;     ///< true: the minimal script causes the alarm
  std::uint64_t trials = 0;    ///< see Minimized::trials
  std::uint64_t restarts = 0;  ///< see Minimized::restarts
  bool whole = false;          ///< see Minimized::whole
  std::vector<Exchanged>
      frames{};                 ///< frames of the minimal script. Empty if not reproduced, or from a resumed session
  std::uint64_t seed = 0;       ///< seed of the session
  std::uint64_t execution = 0;  ///< number of the first mutated step that caused the alarm, from 1
  std::uint64_t times = 1;      ///< number of occurrences
  /// Names of reference device faults with the same effect (broken_likewise).
  std::vector<std::string> like{};
  /// Ids of rules that the frames violate (broken_rules).
  std::vector<std::string> shown{};
  /// Ids of all violated rules: `shown`, and the rules that the faults in `like` violate.
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
  bool count_all = false;  ///< count edges of all kinds, even if they are not used as feedback, for comparison
  bool minimize = true;
  std::size_t most_findings = 64;  ///< limit of stored findings. Further ones are only counted
  std::size_t most_corpus = 4096;  ///< limit of scripts in the corpus. Beyond it, a new script replaces the oldest
  bool stop_at_first = false;
  std::filesystem::path corpus{};  ///< directory. Empty: keep the corpus only in memory
  bool resume = false;             ///< continue the session that is saved in the corpus
  /// Return a further mutation of a mutated step, or nothing.
  std::function<std::optional<Step>(const Step&)> mutator{};
  /// Return a description of an invalid outcome, or nothing.
  std::function<std::optional<std::string>(const Step&, const Outcome&)> oracle{};
  /// Called with the index of each new finding, after the finding is saved in the corpus.
  std::function<void(std::size_t)> recorded{};
};

/// Limits of a run. 0: unlimited.
struct Budget {
  std::uint64_t executions = 0;
  double seconds = 0;
};

struct Statistics {
  std::uint64_t executions = 0;  ///< number of mutated steps, except those of scripts from the corpus
  std::uint64_t steps = 0;       ///< number of all steps
  std::uint64_t lives = 0;
  std::uint64_t connections = 0;
  std::uint64_t edges = 0;                     ///< edges of the feedback `answers`
  std::optional<std::uint64_t> code_edges;     ///< nullopt: the target does not report them, or they are not counted
  std::optional<std::uint64_t> monitor_edges;  ///< nullopt: not counted
  std::uint64_t corpus = 0;
  std::uint64_t findings = 0;  ///< number of distinct findings
  std::uint64_t alarms = 0;    ///< number of all alarms
  std::uint64_t restarts = 0;  ///< restarts of a lost device
  double seconds = 0;
  std::array<std::uint64_t, step_kinds> by_kind{};
};

class Session {
 public:
  Session(std::unique_ptr<Target> target, SessionOptions options);
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;

  /// Run until the budget is used up, `stop` returns true, or the device is lost permanently. Returns an error in the
  /// last case. `stop` is called several times per second. A further call continues the session.
  std::optional<std::string> run(const Budget& budget, const std::function<bool(const Statistics&)>& stop = {});

  [[nodiscard]] const std::vector<Finding>& findings() const { return findings_; }
  [[nodiscard]] const Statistics& statistics() const { return statistics_; }
  [[nodiscard]] const SessionOptions& options() const { return options_; }
  [[nodiscard]] Target& target() { return *target_; }
  /// True if the target reports code coverage.
  [[nodiscard]] bool offers_code() const { return offers_code_; }
  /// Random number that identifies this session in its directories. A resumed session keeps it.
  [[nodiscard]] const std::string& id() const { return id_; }
  /// Return the edges that a script reaches on a new connection. Edges of different kinds have different numbers. Must
  /// not be called during run().
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

  EdgeMap answers_, code_, states_;  ///< edges by kind. Declared before the target, which writes to `code_`
  std::unique_ptr<Target> target_;
  SessionOptions options_;
  Rng chance_{0};  ///< random numbers of the script
  std::unique_ptr<ReferenceModel> model_;
  Script script_;
  std::vector<Step> planned_;  ///< remaining steps of a corpus script, in reverse order
  bool over_ = true;           ///< true: the script is finished
  bool novel_ = false;         ///< true: the script reached a new edge
  bool alarmed_ = false;       ///< true: an oracle reported an alarm in the script
  std::uint64_t next_script_ = 0;
  Outcome actual_;
  bool offers_code_ = false;
  bool watched_ = false;  ///< true: the monitors check this script
  MonitorView view_;
  std::vector<Exchanged> frames_;  ///< frames of the last step
  std::vector<Script> corpus_;
  std::uint64_t kept_ = 0;            ///< scripts added to the corpus, including replaced ones
  std::deque<Script> clean_scripts_;  ///< recent scripts without alarm
  std::vector<Finding> findings_;
  std::size_t resumed_findings_ = 0;  ///< number of findings of the resumed session
  std::set<std::string> signatures_;
  Statistics statistics_;
  std::string id_;
  std::optional<std::chrono::steady_clock::time_point> deadline_;  ///< end of the run
  std::optional<std::string> trouble_;
};

/// Execute a script once, until the first alarm.
Replayed replay(const Script& script, Target& target, bool with_frames = false,
                const std::function<std::optional<std::string>(const Step&, const Outcome&)>& oracle = {});

/// Minimize a script that causes an alarm with this signature: remove steps, then mutations and numbers. If the alarm
/// is a crash, first try only the last connection and the last steps, because each success costs a restart. A lost
/// device and a kernel message, except a warning, count as the same alarm if their causes are equal or one is unknown.
/// Stops at the target's limits and after `seconds`.
Minimized minimize(Script script, const std::string& signature, Target& target,
                   const std::function<std::optional<std::string>(const Step&, const Outcome&)>& oracle = {},
                   double seconds = std::numeric_limits<double>::infinity());

}  // namespace rdmawire::fuzzer
