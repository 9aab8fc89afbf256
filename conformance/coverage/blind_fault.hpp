#pragma once
/// The blind faults of the reference devices of both families. See conformance/device/common/blind_fault.hpp.

#include <span>
#include <string>
#include <string_view>

#include "conformance/cases/case.hpp"

namespace rdmawire::conformance {

struct BlindFault {
  Family family = Family::infiniband;  ///< family of the reference device
  std::string_view name;               ///< "credits-rounded-up"
  std::string_view area;               ///< "RC responder"
  std::string_view sentence;           ///< the faulty behavior
  std::string_view trigger;            ///< legal stimulus that shows the fault, and the difference
  unsigned round = 0;
  std::string_view date;  ///< of the round
};

/// All faults: first RoCE, then iWARP, each in the order of its table.
std::span<const BlindFault> blind_faults();

/// The seeded and the blind faults as JSON: `certify --fault list --json`.
std::string faults_as_json();

}  // namespace rdmawire::conformance
