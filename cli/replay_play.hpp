#pragma once
/// rdmawire replay without --reactive: sends captured frames to wires, unchanged or rewritten.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "cli/command.hpp"
#include "replay/player/player.hpp"

namespace rdmawire::cli {

struct PlayOptions {
  std::vector<std::string> files, wires;
  replay::PlayerOptions::Lanes lanes = replay::PlayerOptions::Lanes::one;
  bool split = false;
  std::string split_by;
  double stats = 0;  ///< seconds. 0: only on a terminal
  std::string pid_file, save_options;
  std::string saved_lines;  ///< contents of the file `save_options`
  bool verbose = false, flow_statistics = false;
  std::int64_t carrier_wait = 5'000'000'000;

  double speed = 0, packets = 0, bits = 0;
  std::uint64_t burst = 1;
  bool topspeed = false, one_at_a_time = false;
  std::optional<std::int64_t> max_gap;
  std::int64_t spin = 100'000;
  std::uint64_t loops = 1;
  std::int64_t pause = 0;
  bool continue_psns = false;
  std::uint32_t ip_step = 0, qp_step = 0;
  std::uint64_t ip_step_loops = 1;

  std::uint64_t limit = 0, max_bytes = 0;
  double seconds = 0;
  std::string include, exclude;

  std::vector<std::string> map;
  std::string write_map;
  std::optional<replay::Unmapped> unmapped;
  replay::RewriteOptions rewrite;

  std::vector<std::string> faults;
  std::string faults_file;
  std::optional<std::uint64_t> seed;

  replay::PlayerOptions::Snapped snapped = replay::PlayerOptions::Snapped::skip;
  replay::PlayerOptions::Fcs fcs = replay::PlayerOptions::Fcs::recompute;
  replay::PlayerOptions::TooLong too_long = replay::PlayerOptions::TooLong::skip;
  std::uint32_t mtu = 0;
  bool allow_multicast = false, preload = false;
  std::vector<std::string> allowed;
  std::optional<std::uint64_t> rate_cap;
  bool dry_run = false, json = false, all_fields = false;
};

/// Adds the options of a replay without --reactive. The caller adds FILE, --wire, --fault, --faults, --seed, --dry-run
/// and --json.
void add_play_options(Command& command, PlayOptions& options);

Exit play(const PlayOptions& options);

}  // namespace rdmawire::cli
