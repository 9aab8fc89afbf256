#pragma once
/// The iWARP reference endpoint as a target.

#include "conformance/runner/target.hpp"

namespace rdmawire::conformance {

/// Opens it in this process, in virtual time. The faults are those of the iWARP fault table.
tl::expected<std::unique_ptr<Target>, TargetError> open_reference_endpoint(const TargetOptions& options);

}  // namespace rdmawire::conformance
