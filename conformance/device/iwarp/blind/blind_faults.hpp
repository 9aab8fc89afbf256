#pragma once
/// Table of the blind faults of the iWARP reference endpoint. See conformance/device/common/blind_fault.hpp.

#include <span>
#include <string_view>

#include "conformance/device/common/blind_fault.hpp"
#include "conformance/device/iwarp/decisions.hpp"

namespace rdmawire::endpoint {

using IwarpBlindFault = device::BlindFault<Decisions>;

// Parts of the table
std::span<const IwarpBlindFault> mpa_blind_faults();
std::span<const IwarpBlindFault> ddp_blind_faults();
std::span<const IwarpBlindFault> rdmap_blind_faults();

/// All faults, by part.
std::span<const IwarpBlindFault* const> blind_faults();
/// Return the fault with this name, or nullptr.
const IwarpBlindFault* find_blind_fault(std::string_view name);

}  // namespace rdmawire::endpoint
