#pragma once
/// Replays captures onto wires: read, rewrite, inject faults, schedule, send. Returns a report.

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

/// Progress of the player.
struct PlayProgress {
  std::uint64_t sent = 0, bytes = 0, loop = 1;
  std::uint64_t position = 0, whole = 0;              ///< read and total bytes of the captures. Total 0: unknown
  double frames_per_second = 0, bits_per_second = 0;  ///< since the last call
};

/// A captured frame and the frame to send.
struct PlayedFrame {
  std::uint64_t number = 0;  ///< in the captures
  std::uint64_t loop = 1;
  const HeaderStack& captured;
  Bytes frame;  ///< frame to send, before faults. Empty: not sent
  const Rewritten& rewritten;
  std::uint32_t lane = 0;  ///< index of its wire
};

/// A frame that a wire accepted.
struct SentFrame {
  std::uint64_t number = 0;  ///< in the captures. 0: injected by a fault
  std::uint64_t loop = 1;
  Bytes frame;
  LinkType link = LinkType::ethernet;
  std::int64_t time = 0;   ///< on the wire's clock
  std::uint32_t lane = 0;  ///< index of its wire
};

/// Changes from one loop to the next.
struct LoopChanges {
  /// PSNs continue where the previous loop ended: live values advance by the number of PSNs of the endpoint. Computed
  /// by survey().
  std::vector<std::array<std::uint32_t, 2>> psns;
  std::vector<std::array<std::uint32_t, 2>> msns;  ///< the same for MSNs
  std::uint32_t ip_step =
      0;  ///< added to the last 32 bits of live addresses (of captured addresses if there is no live one)
  std::uint64_t ip_loops = 1;  ///< number of loops with the same addresses
  std::uint32_t qp_step = 0;   ///< added to QP numbers modulo 2^24 and TCP ports modulo 2^16
  [[nodiscard]] bool any() const { return !psns.empty() || ip_step || qp_step; }
};

struct PlayerOptions {
  std::vector<std::string> files;

  /// Distribution of frames to several wires.
  enum class Lanes : std::uint8_t {
    by_end,     ///< two wires: the first for endpoints a, the second for endpoints b
    by_file,    ///< one wire per file
    by_filter,  ///< two wires: the first for frames that match `first_wire`
    one,        ///< all frames to the first wire
  };
  Lanes lanes = Lanes::one;

  FlowMap map;  ///< empty: only the changes in `rewrite`
  /// By index in `map.connections`: number of the connection in reports and for the fault selector `connection`. Empty:
  /// faults number the QPs and TCP connections in order of appearance.
  std::vector<std::uint32_t> numbers;
  RewriteOptions rewrite;

  Pace pace;
  std::uint64_t rate_cap = 0;  ///< bits per second over all wires, see RateCap. 0: unlimited
  std::uint64_t loops = 1;     ///< 0: unlimited
  std::int64_t pause = 0;      ///< nanoseconds between loops
  LoopChanges changes;
  std::optional<output::Filter> include, exclude, first_wire;
  std::uint64_t most_frames = 0, max_bytes = 0;  ///< frames and bytes to send. 0: unlimited
  std::int64_t most_time = 0;                    ///< nanoseconds since the first frame. 0: unlimited

  enum class Snapped : std::uint8_t { skip, pad, shorten, send } snapped = Snapped::skip;
  /// Handling of the Ethernet frame check sequence of captured frames.
  enum class Fcs : std::uint8_t {
    recompute,  ///< recompute it in frames that change
    remove,     ///< remove it: the device adds one
    keep,       ///< as captured
  } fcs = Fcs::recompute;
  enum class TooLong : std::uint8_t {
    skip,
    truncate,  ///< drop the last bytes
    shorten,   ///< the same, with valid lengths and checksums, see shorten_frame()
    fragment,  ///< divide IP packets into fragments, after faults were applied
  } too_long = TooLong::skip;
  std::uint32_t mtu = 0;     ///< maximum length of frames without Ethernet header and VLAN tags. 0: only the wire's
  bool allow_groups = true;  ///< send frames to group addresses
  bool preload = false;      ///< prepare all frames before the first one is sent, of all loops if they differ

  FaultProgram faults;  ///< sides a and b: the first and the second wire if there are several, otherwise the
                        ///< endpoints a and b
  std::uint64_t fault_seed = 0;

  /// Prepares frames in a separate thread if possible: real time, no pipes, and none of `preload`, `dry`, `step`,
  /// `on_frame`, `on_fault` and `edit`. Affects only the speed.
  bool ahead = true;

  /// Busy-wait for this many nanoseconds before a frame's time. More precise, but uses CPU time.
  std::int64_t spin = 0;
  /// Ends the replay if a queue accepts no frame for this many nanoseconds.
  std::int64_t patience = 10'000'000'000;

  const std::atomic<bool>* stop = nullptr;
  std::function<bool()> step{};                         ///< called before each frame. false ends the replay
  std::function<void(const PlayProgress&)> progress{};  ///< called about every `progress_every`
  std::int64_t progress_every = 1'000'000'000;
  /// Called before a captured gap of more than an hour, with its remaining nanoseconds and the number of the next
  /// frame.
  std::function<void(std::int64_t, std::uint64_t)> long_gap{};
  std::function<void(const PlayedFrame&)> on_frame{};
  std::function<void(const FaultHit&)> on_fault{};  ///< called after on_frame for this frame
  std::function<void(const SentFrame&)> on_sent{};  ///< called for each frame that a wire accepted
  bool flow_statistics = false;                     ///< count the frames of each flow, see FlowStatistics
  /// Called for each frame to send, before faults. Returns the bytes to send instead. nullopt: the frame is not sent
  /// and counts as excluded.
  std::function<std::optional<std::vector<std::uint8_t>>(const PlayedFrame&)> edit{};
  bool dry = false;  ///< everything except sending

  /// True if the frames of the loops differ, so that `preload` prepares those of all loops.
  [[nodiscard]] bool loops_differ() const { return changes.any() || !faults.rules().empty(); }
};

/// Replays until the captures end, a limit is reached, the stop flag is set or an error occurs. All wires must use
/// virtual time (with captured times) or all real time. The wires are flushed but not closed.
ReplayReport play(const PlayerOptions& options, std::span<Wire* const> wires);

}  // namespace rdmawire::replay
