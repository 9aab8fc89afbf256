#pragma once
/// The overrides of each fault, in the groups of the device's parts.

#include <span>

#include "conformance/device/roce/decisions.hpp"

namespace rdmawire::device {

/// A fault and the function that adds its overrides. A fault can have several entries.
struct FaultOverride {
  Fault fault;
  void (*add_to)(Decisions& decisions);
};

std::span<const FaultOverride> frame_overrides();
std::span<const FaultOverride> validation_overrides();
std::span<const FaultOverride> responder_overrides();
std::span<const FaultOverride> requester_overrides();
std::span<const FaultOverride> unreliable_overrides();
std::span<const FaultOverride> congestion_overrides();
std::span<const FaultOverride> cm_overrides();
std::span<const FaultOverride> memory_overrides();
std::span<const FaultOverride> queue_pair_overrides();

}  // namespace rdmawire::device
