#pragma once
/// Handlers of the agent's commands. replay/rpc declares the commands.

#include <functional>
#include <span>
#include <string_view>
#include <vector>

#include "conformance/agent/session.hpp"
#include "replay/rpc/message.hpp"

namespace rdmawire::agent {

/// A command and the function that executes it.
struct Handler {
  const rpc::Command* command;
  std::function<void(Session&, const Received&, const Answer&)> run;
};

namespace detail {

/// Parses the request. Fails if a handle is not that of an object of the session.
template <class Message>
Result<Message> read_request(Session& session, const Received& request) {
  return rpc::read_request<Message>(
      request, rpc::Reader([&session](Kind kind, Handle handle) { return session.objects().check(kind, handle); }));
}

}  // namespace detail

/// Returns a handler that responds immediately.
template <class Message>
Handler handler(Result<typename Message::Result> (*run)(Session&, const Message&)) {
  return {&Message::command(), [run](Session& session, const Received& request, const Answer& answer) {
            const auto message = detail::read_request<Message>(session, request);
            if (!message) return answer(tl::unexpected(message.error()));
            const auto result = run(session, *message);
            if (!result) return answer(tl::unexpected(result.error()));
            answer(rpc::result_of<Message>(*result));
          }};
}

/// Sends the response to a request of this type, immediately or later.
template <class Message>
class AnswerTo {
 public:
  explicit AnswerTo(Answer answer) : answer_(std::move(answer)) {}
  void operator()(const Result<typename Message::Result>& result) const {
    if (result) {
      answer_(rpc::result_of<Message>(*result));
    } else {
      answer_(tl::unexpected(result.error()));
    }
  }

 private:
  Answer answer_;
};

/// Returns a handler that may respond later. Other commands run in the meantime.
template <class Message>
Handler handler(void (*run)(Session&, const Message&, const AnswerTo<Message>&)) {
  return {&Message::command(), [run](Session& session, const Received& request, const Answer& answer) {
            const auto message = detail::read_request<Message>(session, request);
            if (!message) return answer(tl::unexpected(message.error()));
            run(session, *message, AnswerTo<Message>(answer));
          }};
}

// One source file per group of commands.
std::vector<Handler> session_handlers();
std::vector<Handler> device_handlers();
std::vector<Handler> memory_handlers();
std::vector<Handler> completion_handlers();
std::vector<Handler> queue_pair_handlers();
std::vector<Handler> work_handlers();
std::vector<Handler> connection_handlers();
std::vector<Handler> process_handlers();

/// Returns nullptr if there is no command with this name.
const Handler* find_handler(std::string_view name);
/// Executes a command, or defers it while a slow call uses its objects. `request`: the JSON object with its arguments.
void run_command(const std::shared_ptr<Session>& session, const Handler& handler, const Received& request,
                 std::string id);

}  // namespace rdmawire::agent
