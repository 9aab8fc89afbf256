#pragma once
/// Rules of the specification that a device violated in an exchange.

#include <deque>
#include <span>
#include <string>
#include <vector>

#include "conformance/fuzzer/session.hpp"

namespace rdmawire::fuzzer {

/// Return the ids of the rules that the device violated, ascending, as reported by the monitors of `rdmawire check`.
/// The tester violates rules intentionally and is not judged. An empty result does not exclude violations: memory,
/// completions and states are not visible in frames.
std::vector<std::string> broken_rules(std::span<const Exchanged> frames);

/// Return the faults of the reference device that explain a finding. The minimized script and the
/// original script cause the same alarm, at the last step. The frames are equal if both devices are the same program.
/// The scripts in `quiet`, which cause no alarm in the device, cause none. Empty: no fault, or the oracle does not
/// depend on faults.
std::vector<FaultyReference> broken_likewise(const Finding& finding, const std::deque<Script>& quiet,
                                             const Target& target);

}  // namespace rdmawire::fuzzer
