#pragma once
/// rdmawire replay --reactive: emulates one side of a captured connection against a live peer.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "cli/command.hpp"
#include "conformance/runner/target.hpp"

namespace rdmawire::cli {

struct ReactiveOptions {
  std::vector<std::string> captures;  ///< exactly one
  std::vector<std::string> faults;    ///< lines of the fault language
  std::string faults_file;            ///< file with such lines. Empty: none
  std::string output;                 ///< capture file. Empty: none
  std::uint64_t seed = 1;
  std::uint32_t connection = 0;                 ///< ordinal in the capture. 0: the one with the most bytes
  std::string side;                             ///< "a", "b". Empty: the one that sent more bytes
  double retry_after = 0.5, step_timeout = 10;  ///< seconds
  bool reactive = false, dry_run = false, json = false;
  std::string agent;  ///< the agent program. Empty: next to this program
  conformance::TargetOptions target;
};

/// Adds --reactive and the options that require it. The caller adds the options shared with other replays.
void add_reactive_options(Command& command, ReactiveOptions& options);
/// Throws UsageError if an option was given that cannot be used with --reactive.
void check_reactive_options(const Given& given);
Exit replay_reactive(ReactiveOptions options);

}  // namespace rdmawire::cli
