#pragma once
/// What a replay did: as text for people, and as JSON (docs/replay.schema.json).

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "captures/analysis/histogram.hpp"
#include "replay/faults/engine.hpp"

namespace rdmawire::replay {

/// Why a frame was not sent.
enum class Skip : std::uint8_t {
  excluded,  ///< the filters, or PlayerOptions::edit, did not choose it
  snapped,   ///< the capture has only its beginning
  too_long,  ///< the wire does not take so many bytes
  group,     ///< its destination is a group, and that was not allowed
  unmapped,  ///< its connection, or its hosts, are in no mapping
  link,      ///< it is of another link layer than the wire's frames
  refused,   ///< the wire would not take this very frame
  lane,      ///< which of the wires it belongs to is not known
  recut,     ///< its message could not be cut anew for another path MTU
};
inline constexpr std::size_t skips = static_cast<std::size_t>(Skip::recut) + 1;
std::string_view to_string(Skip why);
/// A sentence: what it means, and what to do about it.
std::string_view meaning(Skip why);

struct ReplayReport {
  struct Skipped {
    std::uint64_t frames = 0;
    std::uint64_t first_frame = 0;  ///< number in the capture
    std::string example;            ///< what was wrong with it; may be empty
  };
  struct Flow {
    std::string name, who;
    std::array<std::uint64_t, 2> frames{}, bytes{};  ///< sent, by end
  };
  struct Lane {
    std::string wire;
    std::uint64_t frames = 0, bytes = 0;  ///< handed over to it
    std::uint64_t left = 0;               ///< of these, what it says has left
  };
  struct Rule {
    std::string text;
    FaultCount count;
  };

  std::uint64_t read = 0;                  ///< frames taken from the captures, over all loops
  std::uint64_t sent = 0, bytes = 0;       ///< handed over, and said to have left
  std::uint64_t loops = 0;                 ///< that were begun
  std::int64_t requested = 0;              ///< from the first frame's time to the last one's, as scheduled; nanoseconds
  std::int64_t achieved = 0;               ///< likewise, as handed over
  captures::analysis::Histogram lateness;  ///< handed over so many nanoseconds after its time
  bool timed = false;                      ///< there was a schedule to keep, in real time
  bool waited = false;                     ///< achieved means time that passed
  std::array<Skipped, skips> skipped;
  std::uint64_t truncated = 0, padded = 0, rewritten = 0;
  std::uint64_t divided_pdus = 0;  ///< iWARP: PDUs over several frames, whose STags stayed as captured
  std::vector<Flow> flows;         ///< those that anything was sent of
  std::vector<Lane> lanes;
  std::vector<Rule> faults;
  bool chance = false;  ///< some fault went by chance, by this seed
  std::uint64_t fault_seed = 0;
  bool interrupted = false;
  std::string trouble;  ///< why it ended early; empty: it did not

  [[nodiscard]] const Skipped& skip(Skip why) const { return skipped[static_cast<std::size_t>(why)]; }
  [[nodiscard]] Skipped& skip(Skip why) { return skipped[static_cast<std::size_t>(why)]; }
  /// Frames that were to be sent and could not be.
  [[nodiscard]] std::uint64_t unable() const;
};

std::string to_text(const ReplayReport& report);
/// One object, one line.
std::string to_json(const ReplayReport& report);

}  // namespace rdmawire::replay
