#pragma once
/// Runs one case and determines its verdict.

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "conformance/cases/case.hpp"
#include "conformance/runner/observe.hpp"

namespace rdmawire::conformance {

/// The verdict of one run of a repeated case.
struct Attempt {
  Verdict verdict = Verdict::pass;
  std::uint64_t seed = 0;  ///< seed of this run. --seed repeats it

  friend bool operator==(const Attempt&, const Attempt&) = default;
};

struct CaseResult {
  const Case* of = nullptr;  ///< not nullptr
  Judgment judgment;
  std::vector<WireViolation> wire{};  ///< rules that frames of the device violated, independent of the tested rule
  Transcript transcript;
  Observation observed;  ///< results of the monitors for the device
  std::uint64_t seed = 0;
  std::int64_t nanoseconds = 0;         ///< duration on the wire's clock
  std::vector<Attempt> attempts;        ///< of a repeated case. The result is that of the worst run
  std::vector<std::string> complaints;  ///< kernel messages of the device during the case
  bool left_out = false;                ///< a slow or dangerous case that was skipped
  bool blocked = false;                 ///< did not run, because the transfer that opens the run failed

  /// Returns whether the verdicts of the attempts differ.
  [[nodiscard]] bool flaky() const;
};

/// Derives the seed of a case, which is independent of the cases before it.
std::uint64_t seed_of(const Case& which, std::uint64_t seed_of_run);

/// Runs one case with newly created objects of the device.
CaseResult run_case(const Case& which, DeviceUnderTest& device, std::uint64_t seed);

}  // namespace rdmawire::conformance
