#pragma once
/// What came of a reactive replay: as a value, as text, as JSON.

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
  std::string side;                ///< "a", "b": the captured end that was played
  bool interrupted = false;
  std::string failure;             ///< why it did not come to its end; empty: it did
  std::vector<std::string> notes;  ///< what could not be played, or not be found out

  struct Messages {
    std::size_t all = 0, begun = 0, done = 0;
  };
  Messages ours, theirs;
  std::uint64_t sent_frames = 0, sent_bytes = 0, received_frames = 0;  ///< handed over; of the connection
  RoceMachine::Counts counts{};
  std::vector<Divergence> divergences;
  std::uint64_t divergences_left_out = 0;
  std::vector<std::string> faults;  ///< what was done to frames, one line each
  std::vector<MemoryCheck> memory;
  /// Counters of the device's port that changed, with by how much.
  std::map<std::string, std::int64_t> counters;
  std::vector<std::string> findings;  ///< of the tracker, on what was sent and received together
  std::string recorded;               ///< the file; empty: none

  /// Everything was played and answered as in the capture, and the memory is as it says.
  [[nodiscard]] bool good() const;
  /// Of `counters`, those that count errors.
  [[nodiscard]] std::map<std::string, std::int64_t> error_counters() const;
};

std::string text_of(const Report& report);
/// docs/replay-reactive.md names the keys.
nlohmann::ordered_json json_of(const Report& report);

}  // namespace rdmawire::replay::reactive
