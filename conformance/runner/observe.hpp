#pragma once
/// What the monitors of `rdmawire check` say of the device in a case's conversation. The tester breaks rules on
/// purpose: it is not judged, and where it did, the device is not blamed for what that made of the connection.

#include <cstdint>
#include <map>
#include <vector>

#include "conformance/cases/device_under_test.hpp"
#include "conformance/cases/transcript.hpp"
#include "conformance/monitors/evaluator.hpp"

namespace rdmawire::conformance {

struct Observation {
  std::map<std::size_t, ResultCounters> tallies{};  ///< of the rules that were judged, by index of `rules`
  std::vector<Violation> violations{};  ///< in the order of their first frames, which count the transcript's from 1

  /// Of several cases: counts only.
  void add(const Observation& other);
};

/// With DeviceUnderTest::wire_delay the device's own order of events is known. Else the conversation is a capture at
/// the tester's port, behind a wire that may lose frames and change their order.
Observation observe(const Transcript& transcript, const DeviceUnderTest& device);

}  // namespace rdmawire::conformance
