#pragma once
/// Plays captures onto wires: read, rewrite, faults, schedule, send; and tells what it did.

#include <atomic>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "dissectors/output/filter.hpp"
#include "replay/faults/program.hpp"
#include "replay/player/frames.hpp"
#include "replay/player/report.hpp"
#include "replay/rewrite/rewriter.hpp"
#include "replay/schedule/schedule.hpp"
#include "replay/wires/wire.hpp"

namespace rdmawire::replay {

/// How far the player is.
struct PlayProgress {
  std::uint64_t sent = 0, bytes = 0, loop = 1;
  std::uint64_t position = 0, whole = 0;              ///< of the captures' bytes; whole 0: not known
  double frames_per_second = 0, bits_per_second = 0;  ///< since the last one
};

/// A frame on its way: what it was and what it becomes.
struct PlayedFrame {
  std::uint64_t number = 0;  ///< in the captures
  std::uint64_t loop = 1;
  const HeaderStack& captured;
  Bytes frame;  ///< as it is to leave, before faults; empty: it is not sent
  const Rewritten& rewritten;
};

/// What is different in each loop from the one before.
struct LoopChanges {
  /// PSNs go on where the loop before ended: live values move by as many as that connection's end used. From survey().
  std::vector<std::array<std::uint32_t, 2>> psns;
  std::uint32_t ip_step = 0;  ///< added to live addresses (captured ones where none is known), their last 32 bits
  std::uint32_t qp_step = 0;  ///< likewise to queue pair numbers (TCP ports), modulo 2^24 (2^16)
  [[nodiscard]] bool any() const { return !psns.empty() || ip_step || qp_step; }
};

struct PlayerOptions {
  std::vector<std::string> files;

  /// Which frames go to which of several wires.
  enum class Lanes : std::uint8_t {
    by_end,   ///< what connections' ends a sent to the first, what b sent to the second; two wires
    by_file,  ///< of the nth file to the nth wire
    one,      ///< all to the first
  };
  Lanes lanes = Lanes::one;

  FlowMap map;  ///< empty: nothing is rewritten but as `rewrite` says
  RewriteOptions rewrite;

  Pace pace;
  std::uint64_t rate_cap = 0;  ///< bits a second over all wires; 0: none
  std::uint64_t loops = 1;     ///< 0: without end
  std::int64_t pause = 0;      ///< between loops
  LoopChanges changes;
  std::optional<output::Filter> include, exclude;
  std::uint64_t most_frames = 0, max_bytes = 0;  ///< to be sent; 0: no limit
  std::int64_t most_time = 0;                    ///< nanoseconds since the first frame; 0: no limit

  enum class Snapped : std::uint8_t { refuse, pad, send } snapped = Snapped::refuse;
  bool truncate = false;     ///< frames that are too long for the wire are cut
  bool allow_groups = true;  ///< frames to group addresses are sent
  bool preload = false;      ///< everything that is done to frames is done before the first one is sent

  FaultProgram faults;  ///< sides are those of the lanes, or of by_end with one wire: a and b
  std::uint64_t fault_seed = 0;

  /// Frames are made ready on a thread of their own where that is possible: real time, files that are not pipes,
  /// neither preloaded, dry, asked for, shown nor edited. Only the time that it takes is another one.
  bool ahead = true;

  std::int64_t spin = 0;  ///< so long before a frame's time the player is awake; more exact, and busy
  /// A queue that takes nothing for so long ends the replay.
  std::int64_t patience = 10'000'000'000;

  const std::atomic<bool>* stop = nullptr;
  std::function<bool()> step{};                         ///< one at a time: asked before each frame; false ends
  std::function<void(const PlayProgress&)> progress{};  ///< about every `progress_every`
  std::int64_t progress_every = 1'000'000'000;
  std::function<void(const PlayedFrame&)> on_frame{};
  /// Asked of each frame that is to leave, before faults: the bytes that leave in its place; nothing: it does not
  /// leave, and counts as excluded.
  std::function<std::optional<std::vector<std::uint8_t>>(const PlayedFrame&)> edit{};
  bool dry = false;  ///< everything but sending
};

/// Plays until the captures, a limit, the stop flag or trouble end it. The wires are of one kind of time: all virtual,
/// where times are the captures' own, or all real. They are flushed, not closed.
ReplayReport play(const PlayerOptions& options, std::span<Wire* const> wires);

}  // namespace rdmawire::replay
