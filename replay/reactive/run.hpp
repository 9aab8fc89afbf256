#pragma once
/// Reactive replay of an exchange against an open device.

#include <atomic>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "replay/faults/engine.hpp"
#include "replay/reactive/live.hpp"
#include "replay/reactive/machine.hpp"
#include "replay/reactive/report.hpp"
#include "replay/rewrite/flow_map.hpp"

namespace rdmawire::replay::reactive {

struct RunOptions {
  MachineOptions machine{};
  FaultProgram faults{};                                 ///< side a: sent frames. Side b: frames of the peer
  std::uint64_t seed = 1;                                ///< for live PSNs and random faults
  std::string output{};                                  ///< capture file of sent and received frames. Empty: none
  std::uint64_t most_memory = std::uint64_t{256} << 20;  ///< limit for the device's memory, in bytes
  const std::atomic<bool>* stop = nullptr;  ///< ends the replay early. The report covers the completed part
  std::function<void(const std::string&)> progress{};
};

/// Replays the exchange against the device. Errors are returned in Report::failure.
Report play(const Exchange& exchange, const LiveDevice& device, const RunOptions& options);

/// Describes the steps of the replay, one line each.
std::vector<std::string> steps_of(const Exchange& exchange);

/// Maps the captured values of the connection to live values.
FlowMap map_of(const Exchange& exchange, const MemoryPlan& plan, const LiveWay& way, const LiveEnd& end,
               std::uint32_t our_qp, Psn our_psn, Psn their_psn);

}  // namespace rdmawire::replay::reactive
