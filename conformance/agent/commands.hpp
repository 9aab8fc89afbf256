#pragma once
/// The table of commands: what a controller can ask, how it is documented, and what does it.

#include <span>
#include <string_view>
#include <variant>
#include <vector>

#include "conformance/agent/arguments.hpp"
#include "conformance/agent/session.hpp"

namespace rdmawire::agent {

/// Answers at once.
using Handler = Result<Json> (*)(Session&, Arguments&);
/// Answers when it is time; other commands go on meanwhile.
using WaitingHandler = void (*)(Session&, Arguments&, Answer);

struct Argument {
  std::string_view name;
  std::string_view meaning;  ///< "number, 1 to 4096: …"; an argument that may be missing says "optional"
};

struct Command {
  std::string_view name;
  std::string_view does;              ///< a sentence
  std::vector<Argument> arguments;    ///< others are refused
  std::vector<Argument> result;       ///< members of the result
  std::string_view example, answers;  ///< arguments and result as JSON objects
  std::variant<Handler, WaitingHandler> run;
};

/// Commands that belong together; the title heads their part of the documentation.
struct Family {
  std::string_view title;
  std::span<const Command> commands;
};

// One file for each family.
std::span<const Command> session_commands();
std::span<const Command> device_commands();
std::span<const Command> memory_commands();
std::span<const Command> completion_commands();
std::span<const Command> queue_pair_commands();
std::span<const Command> work_commands();
std::span<const Command> cm_commands();
std::span<const Command> process_commands();

std::span<const Family> families();
/// nullptr when there is none of that name.
const Command* find_command(std::string_view name);
/// Runs what a session was asked. `asked` is a JSON object whose member `do` names the command.
void run_command(const std::shared_ptr<Session>& session, const Command& command, const Asked& asked, std::string id);

/// The commands as a part of docs/agent.md.
std::string reference();

}  // namespace rdmawire::agent
