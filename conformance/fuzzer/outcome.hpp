#pragma once
/// Outcome of a step, as observed by the tester and the device's application.

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
  std::vector<std::vector<std::uint8_t>> sent_frames;  ///< frames sent to the device if they differ from those of the
                                                       ///< reference model. iWARP: always the TCP segments
  std::vector<std::uint8_t> streams;                   ///< iWARP: stream index of each of `frames`
  std::uint32_t notified = 0;                          ///< events of the completion channel
  std::array<machines::QueuePairState, 2> states{};
  std::array<std::uint32_t, 2> receives{};  ///< posted receives
  /// PSN offset of responses to a tester's QP: difference between the PSNs of device and reference model.
  struct Drawn {
    std::uint32_t qpn = 0, beyond = 0;
  };
  std::vector<Drawn> drawn;
  bool unjudged = false;  ///< compare only memory: the device's behavior is implementation-defined

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
