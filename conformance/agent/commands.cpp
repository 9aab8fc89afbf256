#include "conformance/agent/commands.hpp"

#include <algorithm>
#include <iterator>
#include <map>

namespace rdmawire::agent {

std::span<const Family> families() {
  static const Family all[] = {
      // clang-format off
      {"The session", session_commands()},
      {"Devices", device_commands()},
      {"Memory", memory_commands()},
      {"Completions", completion_commands()},
      {"Queue pairs", queue_pair_commands()},
      {"Work requests", work_commands()},
      {"Connections", cm_commands()},
      {"Programs", process_commands()},
      // clang-format on
  };
  return all;
}

const Command* find_command(std::string_view name) {
  static const auto all = [] {
    std::map<std::string_view, const Command*> by_name;
    for (const Family& family : families()) {
      for (const Command& command : family.commands) by_name.emplace(command.name, &command);
    }
    return by_name;
  }();
  const auto found = all.find(name);
  return found == all.end() ? nullptr : found->second;
}

namespace {

/// The first argument that is not in the command's table.
std::optional<Error> unknown_argument(const Command& command, const Asked& asked) {
  for (const auto& [key, value] : asked.items()) {
    const bool known = key == "id" || key == "do" ||
                       std::any_of(command.arguments.begin(), command.arguments.end(),
                                   [&name = key](const Argument& argument) { return argument.name == name; });
    if (known) continue;
    std::string names;
    for (const Argument& argument : command.arguments)
      names += fmt::format("{}{}", names.empty() ? "" : ", ", argument.name);
    return Error{EINVAL, fmt::format("{}: unknown argument; expected {}", line_of(Json(key.substr(0, 60))),
                                     names.empty() ? std::string("none") : names)};
  }
  return std::nullopt;
}

/// True if the command uses an object that a slow call has reserved. Destroying an object ends the call instead.
bool must_wait(Session& session, const Command& command, const Asked& asked) {
  SlowCalls& calls = session.slow_calls();
  if (!calls.any()) return false;
  // Objects must be destroyed after the objects that use them, whose destruction may be deferred.
  if (command.name == "destroy" && session.releases_wait) return true;
  for (const Argument& argument : command.arguments) {
    const bool optional = argument.meaning.starts_with("optional handle");
    if (!optional && !argument.meaning.starts_with("handle")) continue;
    const auto given = asked.find(argument.name);
    if (given == asked.end() || !given->is_number_unsigned()) continue;
    const auto handle = given->get<Handle>();
    if (command.name == "destroy" && calls.uses(handle)) {
      calls.interrupt(handle);
      return true;
    }
    if (calls.takes(handle)) return true;
  }
  return false;
}

}  // namespace

void run_command(const std::shared_ptr<Session>& session, const Command& command, const Asked& asked, std::string id) {
  const Answer answer(session, std::move(id), std::string(command.name));
  if (auto unknown = unknown_argument(command, asked)) {
    answer(tl::unexpected(std::move(*unknown)));
    return;
  }
  if (must_wait(*session, command, asked)) {
    const bool waits = session->put_off([weak = std::weak_ptr(session), &command, asked, id = answer.id()] {
      if (const auto alive = weak.lock()) run_command(alive, command, asked, id);
    });
    session->releases_wait |= waits && command.name == "destroy";
    if (!waits) answer(fail(EAGAIN, "the limit of {} waiting commands is reached", Session::most_waits));
    return;
  }
  Arguments arguments(asked, session->objects());
  if (const auto* run = std::get_if<Handler>(&command.run)) {
    answer((*run)(*session, arguments));
  } else {
    std::get<WaitingHandler>(command.run)(*session, arguments, answer);
  }
}

std::string reference() {
  std::string text;
  const auto rows = [&](std::string_view head, const std::vector<Argument>& entries) {
    if (entries.empty()) return;
    text += fmt::format("\n| {} | |\n|---|---|\n", head);
    for (const Argument& entry : entries) text += fmt::format("| `{}` | {} |\n", entry.name, entry.meaning);
  };
  for (const Family& family : families()) {
    text += fmt::format("### {}\n", family.title);
    for (const Command& command : family.commands) {
      text += fmt::format("\n#### `{}`\n\n{}\n", command.name, command.does);
      rows("argument", command.arguments);
      rows("result", command.result);
      std::string_view arguments = command.example;
      arguments.remove_prefix(1);
      text += fmt::format("\n```\n→ {{\"id\":1,\"do\":\"{}\"{}{}\n← {{\"id\":1,\"result\":{}}}\n```\n", command.name,
                          arguments == "}" ? "" : ",", arguments, command.answers);
    }
    text += "\n";
  }
  text.pop_back();
  return text;
}

}  // namespace rdmawire::agent
