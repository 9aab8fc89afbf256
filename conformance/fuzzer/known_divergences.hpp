#pragma once
/// What of the specification a device broke in a conversation, where its bytes alone show it.

#include <deque>
#include <span>
#include <string>
#include <vector>

#include "conformance/fuzzer/session.hpp"

namespace rdmawire::fuzzer {

/// Ids of the rules that the device broke, as the monitors of `rdmawire check` judge these frames, ascending. Who sent
/// to the device breaks rules on purpose, and is not judged. Empty: nothing on the wire contradicts the specification
/// for certain; memory, completions and states are not on the wire.
std::vector<std::string> broken_rules(std::span<const Exchanged> frames);

/// The known ways to break a sound device in which it does what the finding's device did, as far as was seen: the
/// shortest script ends in the same alarm, with the same frames where both are the same program; so does the script as
/// it was found, and not sooner; and nothing is wrong in `quiet`, scripts in which nothing was wrong with the device.
/// Empty: there is none, or the finding's oracle is not about that.
std::vector<FaultyReference> broken_likewise(const Finding& finding, const std::deque<Script>& quiet,
                                             const Target& target);

}  // namespace rdmawire::fuzzer
