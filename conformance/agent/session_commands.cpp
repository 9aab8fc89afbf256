/// hello, ping, objects, destroy, reset, bye.

#include <linux/capability.h>
#include <sys/syscall.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <fstream>

#include "conformance/agent/commands.hpp"
#include "conformance/agent/conversation.hpp"

namespace rdmawire::agent {
namespace {

/// True if the kernel treats this program as a privileged consumer (IBTA vol 1, 10.2.5): CAP_NET_RAW in the initial
/// user namespace.
bool is_privileged() {
  __user_cap_header_struct header{_LINUX_CAPABILITY_VERSION_3, 0};
  __user_cap_data_struct data[_LINUX_CAPABILITY_U32S_3]{};
  if (syscall(SYS_capget, &header, data) != 0 || (data[0].effective >> CAP_NET_RAW & 1) == 0) return false;
  std::ifstream map("/proc/self/uid_map");
  std::uint64_t inside = 0, outside = 0, count = 0;
  return map >> inside >> outside >> count && inside == 0 && outside == 0 && count == 0xffffffff;
}

Result<Json> hello(Session& session, Arguments& arguments) {
  const auto protocol = arguments.number<std::uint32_t>("protocol");
  static_cast<void>(arguments.text_or("controller", ""));
  const auto heartbeat = arguments.maybe<std::uint64_t>("heartbeat_ms", {10, 86'400'000});
  if (auto wrong = arguments.wrong()) return tl::unexpected(*wrong);
  if (protocol != protocol_version) {
    return fail(EPROTONOSUPPORT, "protocol: the agent supports version {}, not {}", protocol_version, protocol);
  }
  session.begun = true;
  session.heartbeat = static_cast<Loop::Time>(heartbeat.value_or(0)) * Loop::millisecond;

  utsname name{};
  static_cast<void>(uname(&name));
  return Json{{"protocol", protocol_version},
              {"agent", "rdmawire-agent " + session.settings().version},
              {"host", name.nodename},
              {"kernel", name.release},
              {"privileged", is_privileged()}};
}

Result<Json> ping(Session& session, Arguments& arguments) {
  if (auto wrong = arguments.wrong()) return tl::unexpected(*wrong);
  return Json{{"objects", session.objects().size()}, {"time_ns", session.loop().now()}};
}

Result<Json> objects(Session& session, Arguments& arguments) {
  if (auto wrong = arguments.wrong()) return tl::unexpected(*wrong);
  Json all = Json::array();
  for (const auto& [handle, object] : session.objects()) {
    Json entry = {{"handle", handle}, {"kind", object->kind()}, {"uses", object->uses()}};
    entry.update(object->about());
    all.push_back(std::move(entry));
  }
  return Json{{"objects", std::move(all)}};
}

Result<Json> destroy(Session& session, Arguments& arguments) {
  const auto handle = arguments.number<std::uint64_t>("object");
  if (auto wrong = arguments.wrong()) return tl::unexpected(*wrong);
  if (auto done = session.objects().destroy(handle); !done) return tl::unexpected(done.error());
  return Json::object();
}

Result<Json> bye(Session& session, Arguments& arguments) {
  if (auto wrong = arguments.wrong()) return tl::unexpected(*wrong);
  session.said_bye = true;
  return Json{{"released", session.reset()}};
}

Result<Json> reset(Session& session, Arguments& arguments) {
  if (auto wrong = arguments.wrong()) return tl::unexpected(*wrong);
  return Json{{"released", session.reset()}};
}

}  // namespace

std::span<const Command> session_commands() {
  static const Command all[] = {
      {"hello",
       "Starts a session, and ends the previous one on this channel.",
       {{"protocol", "number: 1, the version of this protocol"},
        {"controller", "optional text: name of the controller"},
        {"heartbeat_ms",
         "optional number, 10 to 86400000: the session ends after this time without a line, such as `ping`"}},
       {{"protocol", "1"},
        {"agent", "program and version"},
        {"host", "host name"},
        {"kernel", "kernel release"},
        {"privileged",
         "boolean: whether the agent is a privileged consumer (CAP_NET_RAW), which may use Q_Keys "
         "with the high bit set"}},
       R"({"protocol":1,"controller":"certify","heartbeat_ms":5000})",
       R"({"protocol":1,"agent":"rdmawire-agent 0.1.0","host":"guest","kernel":"6.1.0-30-amd64","privileged":true})",
       &hello},
      {"ping",
       "Keeps the session alive.",
       {},
       {{"objects", "number of objects in the session"}, {"time_ns", "the agent's monotonic clock, nanoseconds"}},
       "{}",
       R"({"objects":4,"time_ns":81370914226})",
       &ping},
      {"objects",
       "Lists the objects of the session, oldest first.",
       {},
       {{"objects", "list of `handle`, `kind`, `uses` (handles of its parent objects) and further attributes"}},
       "{}",
       R"({"objects":[{"handle":1,"kind":"device","uses":[],"name":"rxe0"},{"handle":2,"kind":"pd","uses":[1]}]})",
       &objects},
      {"destroy",
       "Releases an object. EBUSY: other objects use it. Handles are not reused.",
       {{"object", "handle of any kind"}},
       {},
       R"({"object":2})",
       "{}",
       &destroy},
      {"reset",
       "Releases all objects, newest first. Waiting commands are canceled without a response.",
       {},
       {{"released", "number of released objects"}},
       "{}",
       R"({"released":4})",
       &reset},
      {"bye",
       "Ends the session as `reset` does. The next `hello` starts a new one.",
       {},
       {{"released", "number of released objects"}},
       "{}",
       R"({"released":0})",
       &bye},
  };
  return all;
}

}  // namespace rdmawire::agent
