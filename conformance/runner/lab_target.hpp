#pragma once
/// Opens a device of the lab several times in one process.

#include <memory>
#include <tl/expected.hpp>

#include "conformance/lab/guest.hpp"
#include "conformance/runner/target.hpp"

namespace rdmawire::conformance {

/// Same as Target::open() for "lab:rxe" or "lab:siw". The first guest stores its state in `snapshot`, and later guests
/// with equal options start from it.
tl::expected<std::unique_ptr<Target>, TargetError> open_lab(const TargetOptions& options,
                                                            std::shared_ptr<lab::Snapshot> snapshot);

}  // namespace rdmawire::conformance
