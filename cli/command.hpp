#pragma once
/// The subcommands. A separate file implements each one: its option table and its work.

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "cli/options/command.hpp"
#include "dissectors/protocol/decode.hpp"

namespace rdmawire::cli {

Command analyze_command();
Command capture_command();
Command certify_command();
Command check_command();
Command devices_command();
Command dissect_command();
Command explain_command();
Command extract_command();
Command lab_command();
Command replay_command();

/// Prints "rdmawire: MESSAGE" to standard error.
void report_error(std::string_view message);

/// The IDs and aliases of all conformance rules, for shell completion.
std::vector<std::string> rule_names();

/// Adds --roce-port.
void add_roce_port_option(Command& command, std::uint16_t& port);
/// Adds --disable-protocol, which changes `decode`.
void add_disable_protocol_option(Command& command, DecodeOptions& decode);
/// Adds --memory.
void add_memory_option(Command& command, std::uint64_t& memory);

}  // namespace rdmawire::cli
