#pragma once
/// Options of the commands that send to a device.

#include <string>
#include <vector>

#include "cli/command.hpp"
#include "conformance/runner/target.hpp"

namespace rdmawire::cli {

/// Adds --device, --allow, --rate, --credentials, --kernel and --modules to the current group.
void add_device_options(Command& command, conformance::TargetOptions& target);

/// Wires of this host's interfaces and RDMA devices, for shell completion.
std::vector<std::string> wire_names();

/// Names of the faults of the reference devices, for shell completion.
std::vector<std::string> fault_names();

}  // namespace rdmawire::cli
