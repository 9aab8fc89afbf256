#pragma once
/// The transfer that checks device, agent and wire before a run and after each case.

#include <cstdint>
#include <string>

#include "conformance/cases/device_under_test.hpp"
#include "conformance/cases/verdict.hpp"

namespace rdmawire::conformance {

/// Transfers one SEND with its acknowledgement, or one iWARP Send.
///
/// Verdict::fail: the transfer failed because the device violates Judgment::rule, which every transfer needs.
/// Verdict::error: it failed for another reason, for example an unreachable device.
Judgment sanity(DeviceUnderTest& device, std::uint64_t seed);

/// "RSP-001 rc.responder.ack.in-order (IBTA vol 1, 9.7.5): expected …; got …". Requires Judgment::rule.
std::string text_of_violation(const Judgment& judgment);

}  // namespace rdmawire::conformance
