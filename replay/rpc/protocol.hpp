#pragma once
/// All messages of the agent protocol, its reference page and its JSON schema.

#include <span>

#include "replay/rpc/message.hpp"

namespace rdmawire::rpc {

/// A group of commands with the title of its section in the documentation.
struct Family {
  std::string_view title;
  std::vector<const Command*> commands;
};
std::span<const Family> families();

std::span<const EventType* const> events();

/// An error that the agent itself returns, in addition to those of libibverbs and the kernel.
struct ErrorCause {
  std::string_view name;
  std::string_view cause;
};
std::span<const ErrorCause> error_causes();

/// The generated sections of docs/reference/agent-protocol.md.
std::string reference();
/// docs/reference/schemas/agent-protocol.schema.json: requests, results and events in JSON Schema 2020-12.
std::string json_schema();

}  // namespace rdmawire::rpc
