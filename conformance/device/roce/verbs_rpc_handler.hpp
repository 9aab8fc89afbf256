#pragma once
/// Transport-independent agent commands (docs/reference/agent-protocol.md) for the reference devices, so that the
/// client that controls physical devices can also control these. Commands that wait advance the virtual time.

#include <fmt/format.h>

#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "conformance/device/roce/verbs.hpp"
#include "replay/rpc/completion_commands.hpp"
#include "replay/rpc/connection_commands.hpp"
#include "replay/rpc/device_commands.hpp"
#include "replay/rpc/events.hpp"
#include "replay/rpc/memory_commands.hpp"
#include "replay/rpc/session_commands.hpp"
#include "replay/rpc/work_commands.hpp"

namespace rdmawire::device {

using rpc::Json;

/// Return a handle of a request as a number. A number beyond the range of handles becomes 0, which no object has.
template <rpc::Kind kind>
std::uint32_t number_of(rpc::Handle<kind> handle) {
  return handle.number <= 0xffff'ffff ? static_cast<std::uint32_t>(handle.number) : 0;
}
/// The same for an optional handle. Returns 0 if it is absent.
template <rpc::Kind kind>
std::uint32_t number_of(const std::optional<rpc::Handle<kind>>& handle) {
  return handle ? number_of(*handle) : 0;
}

class VerbsRpcHandler {
 public:
  /// Processes the next event until the time `until`, and advances the clock to its time. If there is none, advances
  /// the clock to `until` and returns false.
  using Step = std::function<bool(std::int64_t until)>;

  VerbsRpcHandler(const VerbsRpcHandler&) = delete;
  VerbsRpcHandler& operator=(const VerbsRpcHandler&) = delete;
  virtual ~VerbsRpcHandler() = default;

  /// Process one line of the protocol and return the response lines, events first.
  std::vector<std::string> process_line(std::string_view line);
  /// Run one command and return its result.
  Result<Json> run(const std::string& command, const rpc::Received& arguments);
  /// Return and remove the device's pending events in the format of the protocol.
  std::vector<Json> events();

 protected:
  /// `verbs` must outlive the handler. `own_name`: name of the device. `greeting`: software name in the hello response.
  VerbsRpcHandler(Verbs& verbs, Step step, std::string own_name, std::string greeting);

  using Run = std::function<Result<Json>(const rpc::Received&)>;
  using Commands = std::map<std::string, Run, std::less<>>;
  /// Add the commands of the transport. They do not replace commands that exist already.
  void add_commands(Commands own);
  /// Return the map entry of the command that a member function executes.
  template <class Of, class Message, class MessageResult>
  [[nodiscard]] static Commands::value_type by(Of* self, Result<MessageResult> (Of::*function)(const Message&)) {
    static_assert(std::is_same_v<MessageResult, typename Message::Result>);
    return {std::string(Message::command().name), [self, function](const rpc::Received& request) -> Result<Json> {
              const auto message = rpc::read_request<Message>(request, rpc::Reader(nullptr, true));
              if (!message) return refuse(message.error().number, message.error().message);
              const auto result = (self->*function)(*message);
              if (!result) return tl::unexpected(result.error());
              return rpc::result_of<Message>(*result);
            }};
  }

  using Kind = rpc::Kind;
  std::uint32_t add(Kind kind, std::uint32_t handle);
  [[nodiscard]] const std::string& name() const { return name_; }

  /// Release an object that only some transports have: XRC domains, SRQs, address handles.
  virtual Result<void> release_other(Kind kind, std::uint32_t handle) = 0;
  virtual Result<void> post_srq_recv(std::uint32_t srq, ReceiveRequest request) = 0;
  /// Read transport-specific members of a send request.
  virtual Result<void> read_more(const rpc::SendRequest& request, std::uint32_t qp, SendRequest& into) = 0;
  /// Return the maximum value of immediate data.
  [[nodiscard]] virtual std::uint64_t most_immediate() const { return 0xffff'ffff; }
  /// Set the transport-specific attributes of the port.
  virtual void describe_port(rpc::PortAttributes& port) = 0;
  /// Set the transport-specific attributes of the device.
  virtual void describe_device(rpc::Describe::Result& description) = 0;
  virtual std::map<std::string, std::uint64_t> counters() = 0;

  struct Identity {
    const char *node_type, *transport, *guid;
  };
  [[nodiscard]] virtual Identity identity() const = 0;

 private:
  // verbs_rpc_handler.cpp
  Result<rpc::Hello::Result> hello(const rpc::Hello& request);
  Result<rpc::Ping::Result> ping(const rpc::Ping& request);
  Result<rpc::Reset::Result> reset(const rpc::Reset& request);
  Result<rpc::Bye::Result> bye(const rpc::Bye& request);
  Result<rpc::ListObjects::Result> objects(const rpc::ListObjects& request);
  Result<rpc::Nothing> destroy(const rpc::Destroy& request);
  Result<rpc::Devices::Result> devices(const rpc::Devices& request);
  Result<rpc::Open::Result> open(const rpc::Open& request);
  Result<rpc::Describe::Result> describe(const rpc::Describe& request);
  Result<rpc::PortAttributes> query_port(const rpc::QueryPort& request);
  Result<rpc::Counters::Result> query_counters(const rpc::Counters& request);
  // rpc_memory.cpp
  Result<rpc::AllocPd::Result> alloc_pd(const rpc::AllocPd& request);
  Result<rpc::Register::Result> register_memory(const rpc::Register& request);
  Result<rpc::AllocMr::Result> alloc_mr(const rpc::AllocMr& request);
  Result<rpc::Write::Result> write(const rpc::Write& request);
  Result<rpc::Read::Result> read(const rpc::Read& request);
  Result<rpc::Fill::Result> fill(const rpc::Fill& request);
  Result<rpc::Checksum::Result> checksum(const rpc::Checksum& request);
  Result<rpc::AllocMw::Result> alloc_mw(const rpc::AllocMw& request);
  Result<rpc::BindMw::Result> bind_mw(const rpc::BindMw& request);
  // rpc_completions.cpp
  Result<rpc::CreateChannel::Result> create_channel(const rpc::CreateChannel& request);
  Result<rpc::CreateCq::Result> create_cq(const rpc::CreateCq& request);
  Result<rpc::Nothing> notify(const rpc::Notify& request);
  Result<rpc::Poll::Result> poll(const rpc::Poll& request);
  // rpc_cm.cpp
  Result<rpc::CmListen::Result> cm_listen(const rpc::CmListen& request);
  Result<rpc::CmConnect::Result> cm_connect(const rpc::CmConnect& request);
  Result<rpc::Nothing> cm_accept(const rpc::CmAccept& request);
  Result<rpc::Nothing> cm_establish(const rpc::CmEstablish& request);
  Result<rpc::Nothing> cm_reject(const rpc::CmReject& request);
  Result<rpc::Nothing> cm_disconnect(const rpc::CmDisconnect& request);
  [[nodiscard]] rpc::CmEvent report_of(const CmEvent& event) const;
  // rpc_work.cpp
  Result<rpc::PostSend::Result> post_send(const rpc::PostSend& request);
  Result<rpc::PostRecv::Result> post_recv(const rpc::PostRecv& request);

  struct Part {
    const Region* region = nullptr;
    std::uint64_t address = 0, offset = 0, length = 0;  ///< `address`: in application memory
  };
  Result<Part> part_of(rpc::MrHandle mr, std::uint64_t offset, std::optional<std::uint64_t> length);
  Result<std::vector<Sge>> sges_of(const std::vector<rpc::Sge>& given, std::vector<std::uint8_t>* inline_bytes);
  Result<SendRequest> send_request(const rpc::SendRequest& request, std::uint32_t qp);
  rpc::PortAttributes port();
  void release_all();
  Result<void> release(Kind kind, std::uint32_t handle);

  Verbs& verbs_;
  Step step_;
  std::string name_, greeting_;
  Commands commands_;
  bool begun_ = false;
  std::map<std::uint32_t, Kind> kinds_;
  std::map<std::uint32_t, std::uint64_t> pieces_;  ///< address of the allocated memory, by region
  std::uint32_t opened_ = 0;                       ///< newest handle of the opened device
};

/// Return the symbolic name of an error number, such as "ENOENT".
std::string errno_name(int number);
/// Convert the result of a call to that of a command whose result has no members.
Result<rpc::Nothing> nothing(const Result<void>& done);

// Checks of request members that the protocol leaves to the device.
/// Return the access rights as bits. Fail if the device does not support one.
Result<std::uint32_t> rights_of(const rpc::Flags<rpc::names::access>& access);
/// Parse a GID in IPv6 notation. `name`: name of the member, for the error message.
Result<Gid> gid_of(const std::string& text, std::string_view name);
std::string gid_text(const Gid& gid);

}  // namespace rdmawire::device
