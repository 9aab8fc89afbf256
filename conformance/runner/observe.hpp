#pragma once
/// What the monitors of `rdmawire check` say of the device in a case's conversation. The tester breaks rules on
/// purpose: it is not judged, and where it did, the device is not blamed for what that made of the connection.

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <vector>

#include "conformance/cases/transcript.hpp"
#include "conformance/monitors/judge.hpp"

namespace rdmawire::conformance {

struct Observation {
  std::map<std::size_t, Tally> tallies{};  ///< of the rules that were judged, by index of `rules`
  std::vector<Violation> violations{};     ///< in the order of their first frames, which count the transcript's from 1

  /// Of several cases: counts only.
  void add(const Observation& other);
};

/// `wire_delay`: as DeviceUnderTest has it. Where it is not known the conversation is a capture at the tester's port,
/// behind a wire that may lose frames and change their order.
Observation observe(const Transcript& transcript, std::optional<std::int64_t> wire_delay);

}  // namespace rdmawire::conformance
