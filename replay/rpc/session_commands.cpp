#include "replay/rpc/session_commands.hpp"

namespace rdmawire::rpc {

const Command& Hello::command() {
  static const Command& it = *new Command{
      .name = "hello",
      .does = "Starts a session, and ends the previous one on this channel.",
      .arguments = {required<&Hello::protocol>("protocol", "1, the version of this protocol"),
                    optional<&Hello::controller>("controller", "name of the controller"),
                    optional<&Hello::heartbeat_ms>("heartbeat_ms",
                                                   "the session ends after this time without a line, such as `ping`",
                                                   {.least = least_heartbeat_ms, .most = most_heartbeat_ms})},
      .result = {required<&Result::protocol>("protocol", "1"), optional<&Result::agent>("agent", "program and version"),
                 optional<&Result::host>("host", "host name"), optional<&Result::kernel>("kernel", "kernel release"),
                 optional<&Result::privileged>(
                     "privileged",
                     "whether the agent is a privileged consumer (CAP_NET_RAW), which may use Q_Keys with the high bit "
                     "set")},
      .example = R"({"protocol":1,"controller":"certify","heartbeat_ms":5000})",
      .answers =
          R"({"protocol":1,"agent":"rdmawire-agent 0.1.0","host":"guest","kernel":"6.1.0-30-amd64","privileged":true})"};
  return it;
}

const Command& Ping::command() {
  static const Command& it =
      *new Command{.name = "ping",
                   .does = "Keeps the session alive.",
                   .result = {required<&Result::objects>("objects", "objects in the session"),
                              required<&Result::time_ns>("time_ns", "the agent's monotonic clock, nanoseconds")},
                   .example = "{}",
                   .answers = R"({"objects":4,"time_ns":81370914226})"};
  return it;
}

const Command& ListObjects::command() {
  static const Command& it = *new Command{
      .name = "objects",
      .does = "Lists the objects of the session, oldest first.",
      .result = {required<&Result::objects>(
          "objects", "`handle`, `kind`, `uses` (handles of its parent objects) and further attributes of each object")},
      .example = "{}",
      .answers =
          R"({"objects":[{"handle":1,"kind":"device","uses":[],"name":"rxe0"},{"handle":2,"kind":"pd","uses":[1]}]})"};
  return it;
}

const Command& Destroy::command() {
  static const Command& it =
      *new Command{.name = "destroy",
                   .does = "Releases an object. EBUSY: other objects use it. Handles are not reused.",
                   .arguments = {required<&Destroy::object>("object")},
                   .example = R"({"object":2})",
                   .answers = "{}"};
  return it;
}

const Command& Reset::command() {
  static const Command& it =
      *new Command{.name = "reset",
                   .does = "Releases all objects, newest first. Waiting commands are canceled without a response.",
                   .result = {required<&Result::released>("released", "released objects")},
                   .example = "{}",
                   .answers = R"({"released":4})"};
  return it;
}

const Command& Bye::command() {
  static const Command& it =
      *new Command{.name = "bye",
                   .does = "Ends the session as `reset` does. The next `hello` starts a new one.",
                   .result = {required<&Result::released>("released", "released objects")},
                   .example = "{}",
                   .answers = R"({"released":0})"};
  return it;
}

}  // namespace rdmawire::rpc
