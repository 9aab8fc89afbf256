#pragma once
/// Table of the blind faults of the RoCE reference device. See conformance/device/common/blind_fault.hpp.

#include <span>
#include <string_view>

#include "conformance/device/common/blind_fault.hpp"
#include "conformance/device/roce/decisions.hpp"

namespace rdmawire::device {

using RoceBlindFault = BlindFault<Decisions>;

// Parts of the table
std::span<const RoceBlindFault> responder_blind_faults();
std::span<const RoceBlindFault> requester_blind_faults();
std::span<const RoceBlindFault> memory_blind_faults();
std::span<const RoceBlindFault> queue_pair_blind_faults();
std::span<const RoceBlindFault> service_blind_faults();

/// All faults, by part.
std::span<const RoceBlindFault* const> blind_faults();
/// Return the fault with this name, or nullptr.
const RoceBlindFault* find_blind_fault(std::string_view name);

}  // namespace rdmawire::device
