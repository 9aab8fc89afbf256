#pragma once
/// A device that was opened for the active tester, as the reactive replay wants one.

#include "conformance/runner/target.hpp"
#include "replay/reactive/live.hpp"

namespace rdmawire::conformance {

/// `target` must outlive its use.
replay::reactive::LiveDevice live_device(Target& target);

}  // namespace rdmawire::conformance
