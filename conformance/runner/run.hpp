#pragma once
/// Runs cases, and says how each ended.

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "conformance/cases/case.hpp"
#include "conformance/runner/observe.hpp"

namespace rdmawire::conformance {

struct CaseResult {
  const Case* of = nullptr;  ///< not nullptr
  Judgement judgement;
  Transcript transcript;
  Observation observed;  ///< what the monitors say of the device in it
  std::uint64_t seed = 0;
  std::int64_t nanoseconds = 0;  ///< of the wire's clock
};

/// Runs one case on a fresh set of the device's objects.
CaseResult run_case(const Case& which, DeviceUnderTest& device, std::uint64_t seed);

/// Runs cases one after the other. A transfer before the first and after each tells whether device, agent and wire
/// work: where it fails after a case, that case ends with Verdict::error; where it fails before the first, all do.
std::vector<CaseResult> run_cases(std::span<const Case* const> which, DeviceUnderTest& device, std::uint64_t seed,
                                  const std::function<void(const CaseResult&)>& on_result);

/// A SEND and its acknowledgement: whether device, agent and wire work.
Judgement sanity(DeviceUnderTest& device, std::uint64_t seed);

}  // namespace rdmawire::conformance
