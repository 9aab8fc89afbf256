#pragma once
/// The iWARP reference endpoint as a target.

#include "conformance/runner/target.hpp"

namespace rdmawire::conformance {

/// Opens the iWARP reference endpoint in this process, in virtual time. Its faults are those of the iWARP fault table.
tl::expected<std::unique_ptr<Target>, TargetError> open_reference_endpoint(const TargetOptions& options);

}  // namespace rdmawire::conformance
