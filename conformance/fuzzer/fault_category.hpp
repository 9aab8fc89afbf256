#pragma once
/// Category of an injectable fault, derived from the rules that it violates. The fuzzer must find each fault that has a
/// category.

#include <optional>
#include <string_view>
#include <vector>

#include "conformance/device/iwarp/fault_table.hpp"
#include "conformance/device/roce/fault_table.hpp"

namespace rdmawire::fuzzer {

enum class FaultCategory : std::uint8_t {
  memory_safety,  ///< out-of-bounds, unauthorized or duplicate memory access
  authorization,  ///< access despite a wrong key, right, partition or address
  state,          ///< an action that the state forbids, or a missing action
};
std::string_view to_string(FaultCategory concern);

/// Return the category of the first violated rule that has one. nullopt: none has one.
std::optional<FaultCategory> concern_of(const device::FaultRow& fault);
/// Return the category of the rule that the iWARP fault violates.
std::optional<FaultCategory> concern_of(const endpoint::FaultRow& fault);
/// Faults that the fuzzer cannot reach, with the reason.
struct OutOfReach {
  std::string_view fault, why;
};
std::span<const OutOfReach> out_of_reach();

/// Return the RoCE faults that have a category and are reachable, in the order of the table.
std::vector<const device::FaultRow*> faults_of_concern();
/// Return the iWARP faults that have a category. All are reachable.
std::vector<const endpoint::FaultRow*> endpoint_faults_of_concern();

}  // namespace rdmawire::fuzzer
