#pragma once
/// Outcome of a step: the device's frames, completions, events and states.

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "conformance/device/roce/work_request.hpp"
#include "dissectors/machines/queue_pair_states.hpp"

namespace rdmawire::fuzzer {

/// Outcome of one step.
struct Outcome {
  std::vector<std::vector<std::uint8_t>> frames;  ///< frames sent by the device, in order. iWARP: TCP segments
  std::vector<int> results;                       ///< results of verbs calls: 0, or the error number
  std::vector<device::Completion> completions;
  std::vector<device::AsyncEvent> events;
  std::vector<std::string> connection_events;          ///< CM events. iWARP: stream events
  std::vector<std::string> ends;                       ///< iWARP: FINs and resets of TCP
  std::vector<std::vector<std::uint8_t>> sent_frames;  ///< frames sent to the device. Empty: those of the reference
                                                       ///< model were sent. iWARP: always the TCP segments
  std::vector<std::uint8_t> streams;                   ///< iWARP: stream index of each of `frames`
  std::uint32_t notified = 0;                          ///< number of events of the completion channel
  std::array<machines::QueuePairState, 2> states{};
  std::array<std::uint32_t, 2> receives{};  ///< number of posted receives, by slot
  /// Packets to the tester's QP `qpn` have PSNs that are `beyond` larger than those of the reference model, because the
  /// device's CM chose another starting PSN.
  struct Drawn {
    std::uint32_t qpn = 0, beyond = 0;
  };
  std::vector<Drawn> drawn;
  bool unjudged = false;  ///< true: compare only memory, because the other behavior is implementation-defined

  void clear() {
    frames.clear();
    results.clear();
    completions.clear();
    events.clear();
    connection_events.clear();
    ends.clear();
    sent_frames.clear();
    streams.clear();
    notified = 0;
    states = {};
    receives = {};
    drawn.clear();
    unjudged = false;
  }
};

}  // namespace rdmawire::fuzzer
