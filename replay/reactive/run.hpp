#pragma once
/// A reactive replay, from the capture's exchange and an open device to the report.

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
  FaultProgram faults{};                                 ///< side a is what we send, side b what the peer sends
  std::uint64_t seed = 1;                                ///< of the live PSNs, and of faults by chance
  std::string output{};                                  ///< a capture file of what was sent and received; empty: none
  std::uint64_t most_memory = std::uint64_t{256} << 20;  ///< bytes at the device
  const std::atomic<bool>* stop = nullptr;               ///< ends it early, with the report
  std::function<void(const std::string&)> progress{};
};

/// Plays the exchange against the device. Whatever goes wrong on the way is the report's `failure`.
Report play(const Exchange& exchange, const LiveDevice& device, const RunOptions& options);

/// The steps that it would take, one line each, for people.
std::vector<std::string> steps_of(const Exchange& exchange);

/// Captured values to live ones, of the connection that the exchange is about.
FlowMap map_of(const Exchange& exchange, const MemoryPlan& plan, const LiveWay& way, const LiveEnd& end,
               std::uint32_t our_qp, Psn our_psn, Psn their_psn);

}  // namespace rdmawire::replay::reactive
