#pragma once
/// Rules that a device violated in an exchange, and faults that explain a finding.

#include <deque>
#include <span>
#include <string>
#include <vector>

#include "conformance/fuzzer/session.hpp"

namespace rdmawire::fuzzer {

/// Return the sorted ids of the rules that the device violated, as reported by the monitors of `rdmawire check`. The
/// tester is not checked, because it violates rules intentionally. The device may have violated other rules: frames do
/// not show memory, completions and states.
std::vector<std::string> broken_rules(std::span<const Exchanged> frames);

/// Return the faults that explain a finding. A reference device with such a fault causes the same alarm in the last
/// step of the minimized and of the original script. It causes no alarm in the scripts `quiet`, in which the target
/// causes none. If the target is exact, both send the same frames in the minimized script. Otherwise, the RoCE frames
/// of its last step have equal summaries. The result is empty if the finding was not reproduced, or if its oracle is
/// `gone`, `kernel` or `custom`.
std::vector<FaultyReference> broken_likewise(const Finding& finding, const std::deque<Script>& quiet,
                                             const Target& target);

}  // namespace rdmawire::fuzzer
