#pragma once
/// A run of the fuzzer: lives of a device, one after the other, each a walk of its own; what alarms an oracle is cut
/// down to the shortest script that alarms it again.
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

/// What came of a script that was run once, on fresh objects of the device.
struct Replayed {
  std::optional<Alarm> alarm;     ///< the first
  std::size_t step = 0;           ///< that gave it; the last one where there is none
  std::vector<Exchanged> frames;  ///< in their order, where they were asked for
};

/// How a script was cut down.
struct Minimized {
  Script script;               ///< the shortest that alarmed in the same way
  Replayed shown{};            ///< the last run in which it did, with its frames; without alarm: no run did
  std::uint64_t trials = 0;    ///< scripts that were run
  std::uint64_t restarts = 0;  ///< of the device, which a trial had ended
  bool whole = true;           ///< nothing more can be left out; else what it may cost was spent before
};

/// Something that a device did and should not have.
struct Finding {
  Alarm alarm;
  Script script;                    ///< as it was found, to the step that alarmed
  Script minimal;                   ///< the shortest that alarms the same oracle in the same way
  bool reproduced = false;          ///< the minimal script, run again, does
  std::uint64_t trials = 0;         ///< scripts that were run to cut it down
  std::uint64_t restarts = 0;       ///< of the device, for that
  bool whole = false;               ///< nothing more can be left out; else time or restarts ended before
  std::vector<Exchanged> frames{};  ///< of the minimal script; empty where it was not reproduced, or not in this run
  std::uint64_t seed = 0;           ///< of the session
  std::uint64_t execution = 0;      ///< the mutated step that showed it first, counted from 1
  std::uint64_t times = 1;          ///< that it was seen
  /// Names of seeded faults with which the reference device does the same (broken_likewise).
  std::vector<std::string> like{};
  /// Ids of rules that its frames show broken (broken_rules).
  std::vector<std::string> shown{};
  /// Ids of those that the device broke: these, and those that such faults break.
  std::vector<std::string> rules{};
};

/// Kinds of edges: a life that reaches a new one goes into the corpus.
struct Feedback {
  bool answers = true;   ///< the queue pair's state × what was said × what was answered
  bool code = true;      ///< of the device's code, where the target tells them
  bool monitors = true;  ///< where the monitors of `rdmawire check` stand, before a frame and behind it
};

struct SessionOptions {
  std::uint64_t seed = 1;
  bool plain = false;  ///< random bytes in frames that fit the beginning of a connection: what to compare with
  Feedback feedback{};
  bool count_all = false;  ///< edges of kinds that are no feedback are counted too: to compare
  bool minimize = true;
  std::size_t most_findings = 64;  ///< that are kept; further ones are counted
  std::size_t most_corpus = 4096;  ///< scripts; when there are so many, a new one takes the place of the oldest
  bool stop_at_first = false;
  std::filesystem::path corpus{};  ///< a directory; empty: the corpus is kept in memory alone
  bool resume = false;             ///< goes on where the corpus's session ended
  /// Makes a further change to a step that is to be wrong; nothing: none.
  std::function<std::optional<Step>(const Step&)> mutator{};
  /// Says what is wrong with what came of a step at the device; nothing: all is well.
  std::function<std::optional<std::string>(const Step&, const Outcome&)> oracle{};
};

/// When a run ends: what comes first. 0: never.
struct Budget {
  std::uint64_t executions = 0;
  double seconds = 0;
};

struct Statistics {
  std::uint64_t executions = 0;  ///< mutated steps with their oracles, on a live connection
  std::uint64_t steps = 0;       ///< all steps
  std::uint64_t lives = 0;
  std::uint64_t connections = 0;
  std::uint64_t edges = 0;                     ///< of Feedback::answers
  std::optional<std::uint64_t> code_edges;     ///< nothing: not counted, or the target tells none
  std::optional<std::uint64_t> monitor_edges;  ///< nothing: not counted
  std::uint64_t corpus = 0;
  std::uint64_t findings = 0;  ///< different ones
  std::uint64_t alarms = 0;    ///< all
  std::uint64_t restarts = 0;  ///< of a device that was gone
  double seconds = 0;
  std::array<std::uint64_t, step_kinds> by_kind{};
};

class Session {
 public:
  Session(std::unique_ptr<Target> target, SessionOptions options);
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;

  /// Runs until the budget is spent, `stop` says so (asked a few times a second), or the device is lost for good: then
  /// the error says why. Can be called again, and goes on.
  std::optional<std::string> run(const Budget& budget, const std::function<bool(const Statistics&)>& stop = {});

  [[nodiscard]] const std::vector<Finding>& findings() const { return findings_; }
  [[nodiscard]] const Statistics& statistics() const { return statistics_; }
  [[nodiscard]] const SessionOptions& options() const { return options_; }
  [[nodiscard]] Target& target() { return *target_; }
  /// Whether the target tells which of its code runs.
  [[nodiscard]] bool offers_code() const { return offers_code_; }
  /// An error of the corpus's directory, if there was one.
  [[nodiscard]] const std::optional<std::string>& trouble() const { return trouble_; }

 private:
  std::optional<std::string> start_execution();
  std::optional<std::string> one_step();
  void finish_execution();
  [[nodiscard]] bool perform(const Step& step);
  [[nodiscard]] bool wants(bool Feedback::*kind) const { return options_.count_all || options_.feedback.*kind; }
  void tell_edges();
  void found(Alarm alarm);
  std::optional<std::string> revived_and_found(Alarm alarm);
  [[nodiscard]] double left() const;
  std::optional<std::string> check_alive();
  void keep(const Script& script);
  void load_corpus();
  void load_state(const std::filesystem::path& path);
  void save_state();

  EdgeMap answers_, code_, states_;  ///< by kind of feedback; the target writes into `code_`, and goes first
  std::unique_ptr<Target> target_;
  SessionOptions options_;
  Rng chance_{0};  ///< of the life
  std::unique_ptr<ReferenceModel> shadow_;
  Script script_;
  std::vector<Step> planned_;  ///< of a corpus script, newest last
  bool over_ = true;           ///< the life
  bool novel_ = false;         ///< it reached something new
  bool alarmed_ = false;       ///< an oracle was alarmed in it
  std::uint64_t next_life_ = 0;
  Outcome actual_;
  bool offers_code_ = false;
  bool watched_ = false;  ///< the monitors look on in this life
  MonitorView view_;
  std::vector<Exchanged> frames_;  ///< of the last step
  std::vector<Script> corpus_;
  std::uint64_t kept_ = 0;    ///< scripts that went into the corpus, those that others took the place of among them
  std::deque<Script> quiet_;  ///< of the last lives in which nothing was wrong
  std::vector<Finding> findings_;
  std::size_t carried_ = 0;  ///< of those, from the session that this one goes on with
  std::set<std::string> signatures_;
  Statistics statistics_;
  std::optional<std::chrono::steady_clock::time_point> deadline_;  ///< of the run
  std::optional<std::string> trouble_;
};

/// Runs a script once, until an oracle is alarmed.
Replayed replay(const Script& script, Target& target, bool with_frames = false,
                const std::function<std::optional<std::string>(const Step&, const Outcome&)>& oracle = {});

/// Cuts a script down that gives an alarm with this signature: steps first, then changes and numbers. A script that
/// ends the device is tried with its last connection and its last steps first, since each success costs a restart; that
/// it is told of as gone once, and by its kernel's message the next time, is the same to it. Stays within what the
/// target allows, and within `seconds`.
Minimized minimize(Script script, const std::string& signature, Target& target,
                   const std::function<std::optional<std::string>(const Step&, const Outcome&)>& oracle = {},
                   double seconds = std::numeric_limits<double>::infinity());

}  // namespace rdmawire::fuzzer
