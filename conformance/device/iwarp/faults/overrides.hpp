#pragma once
/// The overrides of each fault, grouped by protocol layer.

#include <span>

#include "conformance/device/iwarp/decisions.hpp"

namespace rdmawire::endpoint {

/// A fault, and a function that adds an override for it. A fault can have several entries.
struct FaultOverride {
  Fault fault;
  void (*add_to)(Decisions& decisions);
};

std::span<const FaultOverride> setup_overrides();
std::span<const FaultOverride> fpdu_overrides();
std::span<const FaultOverride> ddp_overrides();
std::span<const FaultOverride> rdmap_overrides();
std::span<const FaultOverride> extension_overrides();
std::span<const FaultOverride> terminate_overrides();
std::span<const FaultOverride> state_overrides();
std::span<const FaultOverride> rnic_overrides();

/// Set the RDMAP version of a segment's header to 0.
inline void clear_rdmap_version(std::vector<std::uint8_t>& header) { header[1] &= 0x3f; }
/// Add an override that executes the writes delayed in Stream::faults when the next event is processed.
void write_at_next_event(Decisions& decisions);

}  // namespace rdmawire::endpoint
