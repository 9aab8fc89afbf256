#include "conformance/device/iwarp/faults/overrides.hpp"

namespace rdmawire::endpoint {

Decisions decisions_with(const Faults& faults) {
  Decisions decisions;
  if (!faults.any()) return decisions;
  for (const auto& layer : {setup_overrides(), fpdu_overrides(), ddp_overrides(), rdmap_overrides(),
                            extension_overrides(), terminate_overrides(), state_overrides(), rnic_overrides()})
    for (const FaultOverride& override : layer)
      if (faults[override.fault]) override.add_to(decisions);
  return decisions;
}

}  // namespace rdmawire::endpoint
