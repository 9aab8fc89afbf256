#pragma once
/// Table of the agent's commands: names, documentation and handlers.

#include <span>
#include <string_view>
#include <variant>
#include <vector>

#include "conformance/agent/arguments.hpp"
#include "conformance/agent/session.hpp"

namespace rdmawire::agent {

/// Handler that responds immediately.
using Handler = Result<Json> (*)(Session&, Arguments&);
/// Handler that may respond later. Other commands continue in the meantime.
using WaitingHandler = void (*)(Session&, Arguments&, Answer);

struct Argument {
  std::string_view name;
  std::string_view meaning;  ///< for example "number, 1 to 4096: …". Starts with "optional" for optional arguments
};

struct Command {
  std::string_view name;
  std::string_view does;              ///< one sentence
  std::vector<Argument> arguments;    ///< other arguments are rejected
  std::vector<Argument> result;       ///< members of the result
  std::string_view example, answers;  ///< arguments and result as JSON objects
  std::variant<Handler, WaitingHandler> run;
};

/// A group of commands with the title of its section in the documentation.
struct Family {
  std::string_view title;
  std::span<const Command> commands;
};

// One source file per group.
std::span<const Command> session_commands();
std::span<const Command> device_commands();
std::span<const Command> memory_commands();
std::span<const Command> completion_commands();
std::span<const Command> queue_pair_commands();
std::span<const Command> work_commands();
std::span<const Command> cm_commands();
std::span<const Command> process_commands();

std::span<const Family> families();
/// nullptr if the command is unknown.
const Command* find_command(std::string_view name);
/// Executes a command. `asked` is a JSON object. Its member `do` is the name of the command.
void run_command(const std::shared_ptr<Session>& session, const Command& command, const Asked& asked, std::string id);

/// The commands section of docs/reference/agent-protocol.md.
std::string reference();

}  // namespace rdmawire::agent
