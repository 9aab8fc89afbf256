#pragma once
/// The overrides of each fault, grouped by part of the device.

#include <span>

#include "conformance/device/roce/decisions.hpp"

namespace rdmawire::device {

/// A fault, and a function that adds an override for it. A fault can have several entries.
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
