#pragma once
/// A run of the fuzzer: lives of a device, one after the other, each a walk of its own; what alarms an oracle is cut
/// down to the shortest script that alarms it again.
///
///     fuzzer::Session session(fuzzer::reference_target(faults), {.seed = 7});
///     session.run({.executions = 200'000});
///     for (const fuzzer::Finding& finding : session.findings()) …

#include <bitset>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "conformance/fuzzer/target.hpp"

namespace rdmawire::fuzzer {

/// Something that a device did and should not have.
struct Finding {
  Alarm alarm;
  Script script;                     ///< as it was found, to the step that alarmed
  Script minimal;                    ///< the shortest that alarms the same oracle in the same way
  bool reproduced = false;           ///< the minimal script, run again, does
  std::uint64_t seed = 0;            ///< of the session
  std::uint64_t execution = 0;       ///< the mutated step that showed it first, counted from 1
  std::uint64_t times = 1;           ///< that it was seen
  std::vector<std::string> rules{};  ///< ids of those that the device broke, where its frames show it (broken_rules)
};

struct SessionOptions {
  std::uint64_t seed = 1;
  bool plain = false;  ///< random octets in frames that fit the beginning of a connection: what to compare with
  bool minimise = true;
  std::size_t most_findings = 64;  ///< that are kept; further ones are counted
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
  std::uint64_t edges = 0;  ///< states of the queue pair × what was said × what was answered
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
  /// An error of the corpus's directory, if there was one.
  [[nodiscard]] const std::optional<std::string>& trouble() const { return trouble_; }

 private:
  std::optional<std::string> begin_life();
  std::optional<std::string> one_step();
  Step plain_step();
  void note_edge(const Step& step, const device::QueuePair* qp);
  void found(Alarm alarm);
  std::optional<std::string> check_alive();
  void keep(const Script& script);
  void load_corpus();
  void save_state();

  std::unique_ptr<Target> target_;
  SessionOptions options_;
  std::unique_ptr<World> shadow_;
  std::unique_ptr<FrameMaker> maker_;
  std::unique_ptr<Walk> walk_;
  Script script_;
  std::vector<Step> planned_;  ///< of a corpus script, newest last
  bool over_ = true;           ///< the life
  bool novel_ = false;         ///< it reached something new
  std::uint64_t next_life_ = 0;
  Outcome expected_, actual_;
  std::vector<std::vector<std::uint8_t>> frames_;
  std::bitset<1U << 18> edges_;
  std::vector<Script> corpus_;
  std::vector<Finding> findings_;
  std::set<std::string> signatures_;
  Statistics statistics_;
  std::optional<std::string> trouble_;
};

/// Runs a script once, on a fresh device. The first alarm, and the step that gave it.
struct Replayed {
  std::optional<Alarm> alarm;
  std::size_t step = 0;
  struct Exchanged {
    bool sent = false;
    std::size_t step = 0;
    std::int64_t time = 0;
    std::vector<std::uint8_t> frame;
  };
  std::vector<Exchanged> frames;  ///< in their order, where they were asked for
};
Replayed replay(const Script& script, Target& target, bool with_frames = false,
                const std::function<std::optional<std::string>(const Step&, const Outcome&)>& oracle = {});

/// The shortest script that gives an alarm with this signature: without steps, then without changes and numbers that it
/// does not need.
Script minimise(Script script, const std::string& signature, Target& target,
                const std::function<std::optional<std::string>(const Step&, const Outcome&)>& oracle = {});

}  // namespace rdmawire::fuzzer
