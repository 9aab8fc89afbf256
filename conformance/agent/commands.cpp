#include "conformance/agent/commands.hpp"

#include <iterator>
#include <map>

namespace rdmawire::agent {

const Handler* find_handler(std::string_view name) {
  static const auto all = [] {
    std::map<std::string_view, Handler> by_name;
    for (const auto& group : {session_handlers, device_handlers, memory_handlers, completion_handlers,
                              queue_pair_handlers, work_handlers, connection_handlers, process_handlers}) {
      for (Handler& handler : group()) by_name.emplace(handler.command->name, std::move(handler));
    }
    return by_name;
  }();
  const auto found = all.find(name);
  return found == all.end() ? nullptr : &found->second;
}

namespace {

/// True if the command must wait because a slow call has reserved an object that it uses. `destroy` does not wait for
/// the call, but interrupts it.
bool must_wait(Session& session, const rpc::Command& command, const Received& request) {
  SlowCalls& calls = session.slow_calls();
  if (!calls.any()) return false;
  // An object can only be destroyed after its users. If the destruction of a user is deferred, later ones must wait.
  if (command.name == "destroy" && session.releases_wait) return true;
  for (const rpc::Field& field : command.arguments) {
    if (field.type->form != rpc::Type::Form::handle) continue;
    const auto given = request.find(field.name);
    if (given == request.end() || !given->is_number_unsigned()) continue;
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

void run_command(const std::shared_ptr<Session>& session, const Handler& handler, const Received& request,
                 std::string id) {
  const rpc::Command& command = *handler.command;
  const Answer answer(session, std::move(id), std::string(command.name));
  if (must_wait(*session, command, request)) {
    const bool waits = session->put_off([weak = std::weak_ptr(session), &handler, request, id = answer.id()] {
      if (const auto alive = weak.lock()) run_command(alive, handler, request, id);
    });
    session->releases_wait |= waits && command.name == "destroy";
    if (!waits) answer(fail(EAGAIN, "the limit of {} waiting commands is reached", Session::most_waits));
    return;
  }
  handler.run(*session, request, answer);
}

}  // namespace rdmawire::agent
