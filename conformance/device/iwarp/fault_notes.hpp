#pragma once
/// What more there is to say of some faults: why monitors cannot see one although it changes bytes, and which other
/// rules it touches of necessity. What a run shows beyond it is a fault of the suite.

#include <string_view>

#include "conformance/device/iwarp/faults.hpp"

namespace rdmawire::endpoint {

/// Why the bytes alone do not show the fault to the monitors of its rule; empty: they do, or there is none.
std::string_view unseen_because(Fault fault);

/// Other rules whose cases or monitors a fault touches, since they look at the same behavior or need it: aliases, with
/// blanks between them; "*": every stream needs it.
std::string_view related_to(Fault fault);

}  // namespace rdmawire::endpoint
