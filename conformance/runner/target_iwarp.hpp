#pragma once
/// Inside the room: the reference endpoint as a target.

#include "conformance/runner/target.hpp"

namespace rdmawire::conformance {

/// In this process, in virtual time; faults are those of endpoint/fault_table.hpp.
tl::expected<std::unique_ptr<Target>, TargetError> open_reference_endpoint(const TargetOptions& options);

}  // namespace rdmawire::conformance
