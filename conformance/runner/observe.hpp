#pragma once
/// Evaluates the frames of a case with the monitors of `rdmawire check`. The tester violates rules intentionally, so it
/// is not checked, and consequences of its violations are not reported as violations by the device.

#include <cstdint>
#include <map>
#include <vector>

#include "conformance/cases/device_under_test.hpp"
#include "conformance/cases/transcript.hpp"
#include "conformance/monitors/evaluator.hpp"

namespace rdmawire::conformance {

struct Observation {
  std::map<std::size_t, ResultCounters> counters{};  ///< by index of `rules`. Only evaluated rules
  std::vector<Violation> violations{};               ///< in the order of their first frames. Frame numbers are those of
                                                     ///< the written capture, from 1

  /// Adds the counters of another case.
  void add(const Observation& other);
};

/// With DeviceUnderTest::wire_delay, the device's own order of events is known. Otherwise the transcript is evaluated
/// as a capture at the tester's port, with a wire that may lose and reorder frames.
Observation observe(const Transcript& transcript, const DeviceUnderTest& device);

}  // namespace rdmawire::conformance
