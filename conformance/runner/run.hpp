#pragma once
/// Runs cases, and says how each ended.

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "conformance/cases/case.hpp"

namespace rdmawire::conformance {

struct CaseResult {
  const Case* of = nullptr;
  Judgement judgement;
  Transcript transcript;
  std::uint64_t seed = 0;
  std::int64_t nanoseconds = 0;  ///< of the wire's clock
};

/// Runs one case on a fresh set of the device's objects.
CaseResult run_case(const Case& which, DeviceUnderTest& device, std::uint64_t seed);

/// A SEND and its acknowledgement: whether device, agent and wire work. Runs around every case.
Judgement sanity(DeviceUnderTest& device, std::uint64_t seed);

}  // namespace rdmawire::conformance
