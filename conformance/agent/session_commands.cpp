/// hello, ping, objects, destroy, reset, bye.

#include "replay/rpc/session_commands.hpp"

#include <linux/capability.h>
#include <sys/syscall.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <fstream>

#include "conformance/agent/commands.hpp"

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

Result<rpc::Hello::Result> hello(Session& session, const rpc::Hello& request) {
  if (request.protocol != rpc::protocol_version) {
    return fail(EPROTONOSUPPORT, "protocol: the agent supports version {}, not {}", rpc::protocol_version,
                request.protocol);
  }
  session.begun = true;
  session.heartbeat = static_cast<Loop::Time>(request.heartbeat_ms.value_or(0)) * Loop::millisecond;

  utsname name{};
  static_cast<void>(uname(&name));
  return rpc::Hello::Result{.agent = "rdmawire-agent " + session.settings().version,
                            .host = name.nodename,
                            .kernel = name.release,
                            .privileged = is_privileged()};
}

Result<rpc::Ping::Result> ping(Session& session, const rpc::Ping&) {
  return rpc::Ping::Result{session.objects().size(), static_cast<std::uint64_t>(session.loop().now())};
}

Result<rpc::ListObjects::Result> objects(Session& session, const rpc::ListObjects&) {
  rpc::ListObjects::Result all;
  for (const auto& [handle, object] : session.objects()) {
    Json entry = {{"handle", handle}, {"kind", name_of(object->kind())}, {"uses", object->uses()}};
    entry.update(object->about());
    all.objects.push_back(std::move(entry));
  }
  return all;
}

Result<rpc::Nothing> destroy(Session& session, const rpc::Destroy& request) {
  if (auto done = session.objects().destroy(request.object.number); !done) return tl::unexpected(done.error());
  return rpc::Nothing();
}

Result<rpc::Reset::Result> reset(Session& session, const rpc::Reset&) { return rpc::Reset::Result{session.reset()}; }

Result<rpc::Bye::Result> bye(Session& session, const rpc::Bye&) {
  session.said_bye = true;
  return rpc::Bye::Result{session.reset()};
}

}  // namespace

std::vector<Handler> session_handlers() {
  return {handler(hello), handler(ping), handler(objects), handler(destroy), handler(reset), handler(bye)};
}

}  // namespace rdmawire::agent
