#pragma once
/// What came of a step, as its tester and the device's consumer see it.

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "conformance/device/roce/work_request.hpp"
#include "dissectors/machines/queue_pair_states.hpp"

namespace rdmawire::fuzzer {

/// What came of one step.
struct Outcome {
  std::vector<std::vector<std::uint8_t>> frames;  ///< that the device sent, in order; of iWARP: its TCP segments' bytes
  std::vector<int> results;                       ///< of verbs: 0, or the error's number
  std::vector<device::Completion> completions;
  std::vector<device::AsyncEvent> events;
  std::vector<std::string> told;  ///< what became of connections: events of the CM; of iWARP of streams
  std::vector<std::string> ends;  ///< of iWARP: FINs and resets of TCP
  std::vector<std::vector<std::uint8_t>>
      said;  ///< that the device was told, where it is not what the shadow was told; of iWARP: TCP segments, always
  std::vector<std::uint8_t> streams;  ///< of iWARP: of which stream each of `frames` is
  std::uint32_t notified = 0;         ///< events of the completion channel
  std::array<machines::QueuePairState, 2> states{};
  std::array<std::uint32_t, 2> receives{};  ///< that wait
  /// A queue pair of the tester's: responses to it count from a PSN that the device drew, so far beyond the shadow's.
  struct Drawn {
    std::uint32_t qpn = 0, beyond = 0;
  };
  std::vector<Drawn> drawn;
  bool unjudged = false;  ///< memory alone can be compared: what the device does is its own affair

  void clear() {
    frames.clear();
    results.clear();
    completions.clear();
    events.clear();
    told.clear();
    ends.clear();
    said.clear();
    streams.clear();
    notified = 0;
    states = {};
    receives = {};
    drawn.clear();
    unjudged = false;
  }
};

}  // namespace rdmawire::fuzzer
