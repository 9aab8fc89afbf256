#pragma once
/// Additional information about faults: why monitors cannot detect a fault that changes frames, and which other rules
/// the fault affects. Tests fail if a fault affects a rule that is not listed.

#include <string_view>

#include "conformance/device/roce/faults.hpp"

namespace rdmawire::device {

/// Return why the monitors cannot detect the fault in the frames. Empty: they can, or its rules have no monitor.
std::string_view unseen_because(Fault fault);

/// Return the aliases or ids, separated by spaces, of other rules whose cases or monitors the fault affects. "*": all.
std::string_view related_to(Fault fault);

}  // namespace rdmawire::device
