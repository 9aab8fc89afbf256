#include "conformance/device/roce/faults/overrides.hpp"

namespace rdmawire::device {

Decisions decisions_with(const Faults& faults) {
  Decisions decisions;
  if (!faults.any()) return decisions;
  for (const auto& part :
       {frame_overrides(), validation_overrides(), responder_overrides(), requester_overrides(), unreliable_overrides(),
        congestion_overrides(), queue_pair_overrides(), cm_overrides(), memory_overrides()})
    for (const FaultOverride& override : part)
      if (faults[override.fault]) override.add_to(decisions);
  return decisions;
}

}  // namespace rdmawire::device
