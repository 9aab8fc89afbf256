#pragma once
/// Runs one case, and says how it ended.

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "conformance/cases/case.hpp"
#include "conformance/runner/observe.hpp"

namespace rdmawire::conformance {

/// How a case ended when it was run once of several times.
struct Attempt {
  Verdict verdict = Verdict::pass;
  std::uint64_t seed = 0;  ///< of that run: --seed repeats it

  friend bool operator==(const Attempt&, const Attempt&) = default;
};

struct CaseResult {
  const Case* of = nullptr;  ///< not nullptr
  Judgment judgment;
  Transcript transcript;
  Observation observed;  ///< what the monitors say of the device in it
  std::uint64_t seed = 0;
  std::int64_t nanoseconds = 0;         ///< of the wire's clock
  std::vector<Attempt> attempts;        ///< if it was run several times; what is told is that of the worst
  std::vector<std::string> complaints;  ///< of the device itself meanwhile: a kernel's warnings
  bool left_out = false;                ///< it is slow or dangerous, and was not asked for

  /// Its attempts ended differently.
  [[nodiscard]] bool flaky() const;
};

/// What a case's numbers are chosen by: of its own, and the same whatever runs before it.
std::uint64_t seed_of(const Case& which, std::uint64_t seed_of_run);

/// Runs one case on a fresh set of the device's objects.
CaseResult run_case(const Case& which, DeviceUnderTest& device, std::uint64_t seed);

/// A SEND and its acknowledgement: whether device, agent and wire work.
Judgment sanity(DeviceUnderTest& device, std::uint64_t seed);

}  // namespace rdmawire::conformance
