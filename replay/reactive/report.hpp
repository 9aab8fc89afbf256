#pragma once
/// Result of a reactive replay as a value, as text and as JSON.

#include <cstdint>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "replay/reactive/live.hpp"
#include "replay/reactive/machine.hpp"

namespace rdmawire::replay::reactive {

struct Report {
  std::string connection, device;  ///< one line each
  std::string side;                ///< emulated side: "a" or "b"
  bool interrupted = false;
  std::string failure;             ///< why the replay is incomplete. Empty if it is complete
  std::vector<std::string> notes;  ///< skipped parts, and values that could not be read

  struct Messages {
    std::size_t all = 0, begun = 0, done = 0;
  };
  Messages ours, theirs;
  std::uint64_t sent_frames = 0, sent_bytes = 0,
                received_frames = 0;  ///< frames sent. Frames received on the connection
  RoceMachine::Counts counts{};
  std::vector<Divergence> divergences;
  std::uint64_t divergences_left_out = 0;
  std::vector<std::string> faults;         ///< injected faults, one line each
  std::vector<std::string> unused_faults;  ///< rules that were never applied, with the reason
  std::vector<MemoryCheck> memory;
  /// Changed counters of the device's port, with the differences.
  std::map<std::string, std::int64_t> counters;
  std::vector<std::string> findings;  ///< of the analysis of all sent and received frames
  std::string recorded;               ///< file name. Empty: none

  /// True if the replay is complete, the peer responded as captured and the memory matches the capture.
  [[nodiscard]] bool good() const;
  /// The entries of `counters` that count errors.
  [[nodiscard]] std::map<std::string, std::int64_t> error_counters() const;
};

std::string text_of(const Report& report);
/// The keys are described in docs/how-to/replay-against-a-live-peer.md.
nlohmann::ordered_json json_of(const Report& report);

}  // namespace rdmawire::replay::reactive
