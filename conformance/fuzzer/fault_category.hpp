#pragma once
/// What a seeded fault of the reference device, or of the software endpoint of iWARP, is about, by the rules that it
/// breaks: what the fuzzer is there to find.

#include <optional>
#include <string_view>
#include <vector>

#include "conformance/device/iwarp/fault_table.hpp"
#include "conformance/device/roce/fault_table.hpp"

namespace rdmawire::fuzzer {

enum class FaultCategory : std::uint8_t {
  memory_safety,  ///< bytes land where they must not, or that must not, or twice
  authorization,  ///< somebody does what keys, rights, partitions or addresses do not allow
  state,          ///< a packet or a call has an effect that the state does not allow, or none where it does
};
std::string_view to_string(FaultCategory concern);

/// By the first rule of the fault that is about one of these; nothing: about none.
std::optional<FaultCategory> concern_of(const device::FaultRow& fault);
/// The same of iWARP, by the rule that it breaks.
std::optional<FaultCategory> concern_of(const endpoint::FaultRow& fault);
/// Those that the fuzzer has no way to: the fault's name, and why.
struct OutOfReach {
  std::string_view fault, why;
};
std::span<const OutOfReach> out_of_reach();

/// The faults that are about one of these and within reach, in the table's order.
std::vector<const device::FaultRow*> faults_of_concern();
/// Of iWARP: all of them are within reach.
std::vector<const endpoint::FaultRow*> endpoint_faults_of_concern();

}  // namespace rdmawire::fuzzer
