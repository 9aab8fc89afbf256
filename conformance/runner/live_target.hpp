#pragma once
/// Converts a device of the active tester to a device of the reactive replay.

#include "conformance/runner/target.hpp"
#include "replay/reactive/live.hpp"

namespace rdmawire::conformance {

/// `target` must outlive the returned object.
replay::reactive::LiveDevice live_device(Target& target);

}  // namespace rdmawire::conformance
