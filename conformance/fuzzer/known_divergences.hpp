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

/// Return the faults that explain a finding. A reference device with such a fault raises the same alarm, at the last
/// step, for the minimized and for the original script. It raises none for the scripts in `quiet`, which raise none in
/// the device. Its frames for the minimized script equal those of the finding if the target is exact. Otherwise, RoCE
/// frames of the last step have equal summaries. Empty if no fault explains the finding, if it was not reproduced, or
/// if the oracle is `gone`, `kernel` or `custom`.
std::vector<FaultyReference> broken_likewise(const Finding& finding, const std::deque<Script>& quiet,
                                             const Target& target);

}  // namespace rdmawire::fuzzer
