#pragma once
/// What more there is to say of some faults: why monitors cannot see one although it changes frames, and which other
/// rules it touches of necessity. What a run shows beyond it is a fault of the suite.

#include <string_view>

#include "conformance/device/roce/faults.hpp"

namespace rdmawire::device {

/// Why the frames alone do not show the fault to the monitors of its rules; empty: they do, or there is none.
std::string_view unseen_because(Fault fault);

/// Other rules whose cases or monitors a fault touches, since they look at the same behavior or need it: aliases or
/// ids, with blanks between them; "*": every exchange needs it.
std::string_view related_to(Fault fault);

}  // namespace rdmawire::device
