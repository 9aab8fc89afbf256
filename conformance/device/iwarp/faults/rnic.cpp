/// Faults of completion queues and memory.

#include "conformance/device/iwarp/rnic.hpp"

#include "conformance/device/iwarp/faults/overrides.hpp"
#include "conformance/device/roce/decisions.hpp"

namespace rdmawire::endpoint {

namespace {

constexpr FaultOverride rnic_rows[] = {
    {Fault::overflow_ends_all,
     [](Decisions& d) {
       d.completions.overflow.override_with([](const auto& next, Rnic& rnic, device::CompletionQueue& queue) {
         next(rnic, queue);
         rnic.fail_streams();
       });
     }},
};

/// Faults of the memory, whose code is shared with the RoCE device.
constexpr std::pair<Fault, device::Fault> memory_rows[] = {
    {Fault::ignores_domains, device::Fault::ignores_protection_domains},
    {Fault::bounds_off_by_one, device::Fault::bounds_off_by_one},
    {Fault::ignores_rights, device::Fault::ignores_region_rights},
    {Fault::invalidates_nothing, device::Fault::send_invalidate_does_nothing},
    {Fault::local_invalidate_does_nothing, device::Fault::local_invalidate_does_nothing},
};

}  // namespace

std::span<const FaultOverride> rnic_overrides() { return rnic_rows; }

device::MemoryDecisions memory_decisions_with(const Faults& faults) {
  device::Faults of_memory;
  for (const auto& [fault, same] : memory_rows) of_memory.set(same, faults[fault]);
  device::MemoryDecisions decisions = device::decisions_with(of_memory).memory;
  if (faults[Fault::predictable_stags])
    decisions.propose_key.override_with(
        [](const auto& /*next*/, device::Random& /*random*/, std::uint32_t last) { return last + 0x100; });
  return decisions;
}

}  // namespace rdmawire::endpoint
