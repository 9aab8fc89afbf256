#pragma once
/// rdmawire replay --reactive: one side of a captured connection, played against a live peer.

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
  std::string faults_file;            ///< or a file of them; empty: none
  std::string output;                 ///< a capture file; empty: none
  std::uint64_t seed = 1;
  std::uint32_t connection = 0;                 ///< the capture's n-th; 0: the one with most bytes
  std::string side;                             ///< "a", "b"; empty: the end that sent more
  double retry_after = 0.5, step_timeout = 10;  ///< seconds
  bool reactive = false, dry_run = false, json = false;
  std::string agent;  ///< the agent's program; empty: beside this one
  conformance::TargetOptions target;
};

/// Adds --reactive, which it gives, and the options that only such a replay has; those that it shares are the caller's.
CLI::Option* add_reactive_options(CLI::App& command, ReactiveOptions& options);
/// A usage error (CLI::ValidationError) where an option was given that has no meaning with --reactive.
void check_reactive_options(const CLI::App& command);
Exit replay_reactive(ReactiveOptions options);

}  // namespace rdmawire::cli
