#include "replay/rpc/protocol.hpp"

#include <array>

#include "replay/rpc/completion_commands.hpp"
#include "replay/rpc/connection_commands.hpp"
#include "replay/rpc/device_commands.hpp"
#include "replay/rpc/events.hpp"
#include "replay/rpc/memory_commands.hpp"
#include "replay/rpc/process_commands.hpp"
#include "replay/rpc/queue_pair_commands.hpp"
#include "replay/rpc/session_commands.hpp"
#include "replay/rpc/work_commands.hpp"

namespace rdmawire::rpc {
namespace {

template <class... Messages>
Family family(std::string_view title) {
  return {title, {&Messages::command()...}};
}

}  // namespace

std::span<const Family> families() {
  static const auto& all = *new std::array{
      family<Hello, Ping, ListObjects, Destroy, Reset, Bye>("The session"),
      family<Devices, Open, Describe, QueryPort, Counters, AllocPd, OpenXrcd>("Devices"),
      family<Register, Reregister, AllocMr, Write, Read, Fill, Checksum, AllocMw, BindMw>("Memory"),
      family<CreateChannel, CreateCq, ResizeCq, Notify, Poll>("Completions"),
      family<CreateSrq, ModifySrq, QuerySrq, CreateAh, CreateQp, ModifyQp, QueryQp, AttachMulticast, DetachMulticast>(
          "Queue pairs"),
      family<PostSend, PostRecv>("Work requests"),
      family<CmListen, CmConnect, CmAccept, CmEstablish, CmReject, CmDisconnect, CmJoin>("Connections"),
      family<Run, Kill, Stdin>("Programs"),
  };
  return all;
}

std::span<const EventType* const> events() {
  static const EventType* const all[] = {&AsyncEvent::event(), &CompletionEvent::event(), &CmEvent::event(),
                                         &ProcessEvent::event(), &EndedEvent::event()};
  return all;
}

std::span<const ErrorCause> error_causes() {
  static constexpr ErrorCause all[] = {
      {"EBADMSG", "the line contains no JSON object, or lacks `id` or `do`"},
      {"EMSGSIZE", "a line or a response would be too long"},
      {"EPROTO", "a command before `hello`"},
      {"EPROTONOSUPPORT", "unsupported protocol version"},
      {"EACCES", "the agent requires TLS. The agent then closes the connection"},
      {"ENOSYS", "unknown command"},
      {"EINVAL", "an argument is missing, unknown or of the wrong type, or a handle has the wrong kind"},
      {"ERANGE", "a number is out of range, or a region is exceeded"},
      {"ENOENT", "unknown handle"},
      {"EBUSY", "the object is in use"},
      {"ENODEV", "unknown device"},
      {"ENOMEM", "the memory regions of the session would exceed `--memory`"},
      {"EOPNOTSUPP", "libibverbs, the driver or the QP does not support the operation"},
      {"ECANCELED", "the object of a waiting or running command was destroyed"},
      {"EAGAIN", "too many waiting commands"},
      {"EUSERS", "too many connections"},
  };
  return all;
}

}  // namespace rdmawire::rpc
