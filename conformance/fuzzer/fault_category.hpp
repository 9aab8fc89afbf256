#pragma once
/// Category of an injectable fault, derived from the violated rules. The fuzzer must find the faults of these
/// categories.

#include <optional>
#include <string_view>
#include <vector>

#include "conformance/device/iwarp/fault_table.hpp"
#include "conformance/device/roce/fault_table.hpp"

namespace rdmawire::fuzzer {

enum class FaultCategory : std::uint8_t {
  memory_safety,  ///< out-of-bounds, unauthorized or duplicate memory access
  authorization,  ///< an access that keys, rights, partitions or addresses forbid
  state,          ///< an effect that the state forbids, or a missing effect
};
std::string_view to_string(FaultCategory concern);

/// Category of the first violated rule that has one. Empty: none.
std::optional<FaultCategory> concern_of(const device::FaultRow& fault);
/// Category of the rule that the iWARP fault violates.
std::optional<FaultCategory> concern_of(const endpoint::FaultRow& fault);
/// Faults that the fuzzer cannot reach, with the reason.
struct OutOfReach {
  std::string_view fault, why;
};
std::span<const OutOfReach> out_of_reach();

/// Return the reachable faults of these categories in the order of the table.
std::vector<const device::FaultRow*> faults_of_concern();
/// Return the iWARP faults of these categories. All are reachable.
std::vector<const endpoint::FaultRow*> endpoint_faults_of_concern();

}  // namespace rdmawire::fuzzer
