#pragma once
/// Additional information about faults: why monitors cannot detect a fault that changes bytes, and which other rules
/// the fault affects. Tests fail if a fault affects a rule that is not listed.

#include <string_view>

#include "conformance/device/iwarp/faults.hpp"

namespace rdmawire::endpoint {

/// Return why the monitors cannot detect the fault in the byte stream. Empty: they can, or its rule has no monitor.
std::string_view unseen_because(Fault fault);

/// Return the aliases, separated by spaces, of other rules whose cases or monitors the fault affects. "*": all.
std::string_view related_to(Fault fault);

}  // namespace rdmawire::endpoint
