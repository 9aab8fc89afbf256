#pragma once
/// Result of a replay as text and as JSON (docs/reference/schemas/replay.schema.json).

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "captures/analysis/histogram.hpp"
#include "replay/faults/engine.hpp"
#include "replay/player/flow_statistics.hpp"
#include "replay/rewrite/rewriter.hpp"
#include "replay/schedule/schedule.hpp"

namespace rdmawire::replay {

/// Reason why a frame was not sent.
enum class Skip : std::uint8_t {
  excluded,  ///< not selected by the filters or by PlayerOptions::edit
  snapped,   ///< truncated by the capture
  too_long,  ///< exceeds the maximum length of the wire
  group,     ///< group address without permission
  unmapped,  ///< its RDMA connection has no mapping
  others,    ///< another protocol, between hosts without a mapping
  link,      ///< link type differs from the wire's
  refused,   ///< the wire rejected the frame
  lane,      ///< unknown wire
  recut,     ///< its message could not be resegmented to another path MTU
};
inline constexpr std::size_t skips = static_cast<std::size_t>(Skip::recut) + 1;
std::string_view to_string(Skip why);
/// One sentence: the meaning and a hint.
std::string_view meaning(Skip why);

/// The effect of a fault rule on a frame.
struct FaultHit {
  FaultLogEntry entry;     ///< `frame`: number in the captures
  std::uint64_t loop = 1;  ///< from 1
  std::string text{};      ///< "frame 214 from a (connection 1, …): dropped by rule 1: drop psn +3"
};

/// The treatment of a frame in a dry run.
struct FramePreview {
  std::uint64_t frame = 0, loop = 1;  ///< `frame`: number in the captures
  std::string not_sent{};             ///< reason. Empty: the frame would be sent
  bool sent = false;
  std::string wire{};
  std::vector<FieldChange> changes{};
};

struct ReplayReport {
  struct Skipped {
    std::uint64_t frames = 0;
    std::uint64_t first_frame = 0;  ///< number in the capture
    std::string example;            ///< details of the first frame. May be empty
  };
  struct Flow {
    std::string name, who;                           ///< captured values
    std::array<std::uint64_t, 2> frames{}, bytes{};  ///< sent, by endpoint
    std::string live{};                              ///< live values, of the first loop. Empty: the captured ones
    std::uint32_t number = 0;                        ///< number of the connection in the captures. 0: unknown
  };
  struct Lane {
    std::string wire;
    std::uint64_t frames = 0, bytes = 0;  ///< passed to the wire
    std::uint64_t left = 0;               ///< of these, frames that the wire reports as sent
  };
  struct Rule {
    std::string text;
    FaultCount count;
    std::string reason{};  ///< why the rule was not applied to some selected frames, or selected none. Empty if it was
                           ///< always applied
    bool random = false;   ///< it has a probability below 1
    [[nodiscard]] bool unused() const { return count.done == 0; }
  };

  std::uint64_t read = 0;                         ///< frames read from the captures, over all loops
  std::uint64_t sent = 0, bytes = 0;              ///< passed to the wire and reported as sent
  std::uint64_t loops = 0;                        ///< started loops
  std::uint64_t last_frames = 0, last_bytes = 0;  ///< of `sent` and `bytes`: the last group of frames sent together
  Pace pace;                                      ///< requested rate
  std::int64_t requested = 0;                     ///< scheduled time from the first to the last frame, in nanoseconds
  std::int64_t achieved = 0;                      ///< actual time from the first to the last frame, in nanoseconds
  captures::analysis::Histogram lateness;         ///< nanoseconds from the scheduled to the actual time
  /// Times at which frames left, if a wire reports them.
  struct Departures {
    std::string source;        ///< "kernel" or "device"
    std::uint64_t frames = 0;  ///< frames with a time and a schedule
    std::uint64_t early = 0;   ///< of these, frames that left before their time
    captures::analysis::Histogram
        lateness;  ///< nanoseconds from the scheduled time. 0 for early frames. "device": relative to the first frame
    captures::analysis::Histogram spacing;  ///< nanoseconds by which the gap to the previous frame differs
  };
  Departures departures;
  bool timed = false;   ///< there was a real-time schedule
  bool waited = false;  ///< `achieved` is elapsed time
  std::array<Skipped, skips> skipped;
  std::uint64_t truncated = 0, padded = 0, rewritten = 0;
  std::uint64_t shortened = 0;                ///< frames with less payload and valid headers
  std::uint64_t fragmented = 0;               ///< packets that were divided into fragments
  std::uint64_t fragments = 0;                ///< their fragments
  std::uint64_t converted = 0;                ///< frames that got an Ethernet header, see LinkConversion
  std::uint64_t fcs = 0;                      ///< frames with a frame check sequence
  std::uint64_t fcs_changed = 0;              ///< of these, frames whose frame check sequence was recomputed or removed
  bool fcs_removed = false;                   ///< frame check sequences were removed
  std::uint64_t tagged = 0;                   ///< frames with a VLAN tag, after rewriting
  std::uint64_t labeled = 0;                  ///< frames with an IPv6 or GRH flow label
  std::uint64_t divided_pdus = 0;             ///< iWARP: PDUs in several frames, whose STags were not rewritten
  std::vector<Flow> flows;                    ///< connections with sent frames
  std::optional<FlowReport> flow_statistics;  ///< with PlayerOptions::flow_statistics
  std::vector<Lane> lanes;
  std::vector<Rule> faults;
  std::vector<FaultHit> fault_hits;      ///< in order, at most a limit
  std::uint64_t fault_hits_omitted = 0;  ///< beyond the limit
  bool chance = false;                   ///< a fault rule uses random numbers, from fault_seed
  std::uint64_t fault_seed = 0;
  bool interrupted = false;
  /// Dry run: frames that would be changed or not sent, at most a limit. nullopt: no dry run.
  std::optional<std::vector<FramePreview>> previews;
  std::uint64_t previews_omitted = 0;
  std::uint64_t ended_before = 0;  ///< the frame of the captures that exceeded a limit. 0: none
  std::string trouble;             ///< why the replay ended early. Empty if it did not

  [[nodiscard]] const Skipped& skip(Skip why) const { return skipped[static_cast<std::size_t>(why)]; }
  [[nodiscard]] Skipped& skip(Skip why) { return skipped[static_cast<std::size_t>(why)]; }
  /// Number of frames that should have been sent but could not be.
  [[nodiscard]] std::uint64_t unable() const;
  /// True if a fault rule without a probability was never applied.
  [[nodiscard]] bool unused_fault() const;
};

std::string to_text(const ReplayReport& report);
/// One object on one line.
std::string to_json(const ReplayReport& report);

}  // namespace rdmawire::replay
