#include "replay/rpc/process_commands.hpp"

namespace rdmawire::rpc {

const Command& Run::command() {
  static const Command& it = *new Command{
      .name = "run",
      .does =
          "Starts a program. EPERM unless the agent was started with `--allow-run`. It has its own process group, "
          "which is killed when the handle is destroyed or the session ends. Its output and its end are reported as "
          "events `process`. A session has at most 32 processes, including exited ones.",
      .arguments =
          {required<&Run::argv>("argv", "the program, searched in PATH, and its arguments", {.least = 1, .most = 1024}),
           optional<&Run::env>("env", "`NAME=VALUE`, which replace or extend the agent's environment", {.most = 1024}),
           optional<&Run::directory>("directory", "working directory"),
           optional<&Run::stdin_bytes>("stdin", "its standard input", {.most = most_input}),
           optional<&Run::stdin_open>("stdin_open", "keep standard input open for `stdin`"),
           optional<&Run::most_output>("most_output", "limit for the reported output bytes of both streams together",
                                       {.most = 1U << 30U})},
      .result = {required<&Result::process>("process"),
                 required<&Result::pid>("pid", "its process ID and process group ID")},
      .example = R"({"argv":["rping","-s","-C","1"]})",
      .answers = R"({"process":5,"pid":212})"};
  return it;
}

const Command& Kill::command() {
  static const Command& it =
      *new Command{.name = "kill",
                   .does = "Sends a signal to the process group.",
                   .arguments = {required<&Kill::process>("process"), optional<&Kill::signal>("signal")},
                   .example = R"({"process":5,"signal":"kill"})",
                   .answers = "{}"};
  return it;
}

const Command& Stdin::command() {
  static const Command& it = *new Command{
      .name = "stdin",
      .does =
          "Sends more input to a process. ENOBUFS: more than 1 MiB is waiting. EPIPE: closed by the controller or "
          "the process.",
      .arguments = {required<&Stdin::process>("process"), optional<&Stdin::data>("data", {}, {.most = most_input}),
                    optional<&Stdin::close>("close", "close the standard input")},
      .result = {required<&Result::waiting>("waiting", "unread bytes")},
      .example = R"({"process":5,"data":"68690a","close":true})",
      .answers = R"({"waiting":0})"};
  return it;
}

}  // namespace rdmawire::rpc
