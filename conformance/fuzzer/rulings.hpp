#pragma once
/// What of the specification a device broke in a conversation, where its octets alone show it.

#include <span>
#include <string>
#include <vector>

#include "conformance/fuzzer/session.hpp"

namespace rdmawire::fuzzer {

/// Ids of the rules that the device broke, as the monitors of `rdmawire check` judge these frames, ascending. Who sent
/// to the device breaks rules on purpose, and is not judged. Empty: nothing on the wire contradicts the specification
/// for certain; memory, completions and states are not on the wire.
std::vector<std::string> broken_rules(std::span<const Replayed::Exchanged> frames);

}  // namespace rdmawire::fuzzer
