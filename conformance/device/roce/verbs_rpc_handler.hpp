#pragma once
/// Transport-independent agent commands (docs/reference/agent-protocol.md) for software devices. The client that
/// controls physical devices also controls these. Waiting commands advance virtual time.

#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "conformance/device/roce/argument_reader.hpp"
#include "conformance/device/roce/verbs.hpp"

namespace rdmawire::device {

class VerbsRpcHandler {
 public:
  /// Process the next event up to time `until` and advance the clock to it. Return false, with the clock at `until`, if
  /// there is no event.
  using Step = std::function<bool(std::int64_t until)>;

  VerbsRpcHandler(const VerbsRpcHandler&) = delete;
  VerbsRpcHandler& operator=(const VerbsRpcHandler&) = delete;
  virtual ~VerbsRpcHandler() = default;

  /// Process one line of the protocol and return the response lines, events first.
  std::vector<std::string> process_line(std::string_view line);
  /// Run one command and return its result.
  Result<Json> run(const std::string& command, const Json& arguments);
  /// Return and remove pending device events in the protocol's format.
  std::vector<Json> events();

 protected:
  /// `verbs` must outlive this. `own_name`: name of the device. `greeting`: software name in the response to hello.
  VerbsRpcHandler(Verbs& verbs, Step step, std::string own_name, std::string greeting);

  using Command = std::function<Result<Json>(ArgumentReader&)>;
  using Commands = std::map<std::string, Command, std::less<>>;
  /// Add the commands of the transport. A command that exists already is kept.
  void add_commands(Commands own);
  /// Wrap a member function as a command.
  template <class Of>
  [[nodiscard]] static Command by(Of* self, Result<Json> (Of::*function)(ArgumentReader&)) {
    return [self, function](ArgumentReader& arguments) { return (self->*function)(arguments); };
  }

  enum class Kind : std::uint8_t { device, pd, xrcd, mr, mw, channel, cq, srq, ah, qp, cm_id };
  Json add(Kind kind, std::uint32_t handle);
  [[nodiscard]] const std::string& name() const { return name_; }

  /// Release an object that only some transports have: XRC domains, SRQs, address handles.
  virtual Result<void> release_other(Kind kind, std::uint32_t handle) = 0;
  virtual Result<void> post_srq_recv(std::uint32_t srq, ReceiveRequest request) = 0;
  /// Read transport-specific members of a send request.
  virtual void read_more(ArgumentReader& arguments, std::uint32_t qp, SendRequest& into) = 0;
  /// Return the maximum value of immediate data.
  [[nodiscard]] virtual std::uint64_t most_immediate() const { return 0xffff'ffff; }
  /// Return transport-specific information about the port.
  virtual Json own_port() = 0;
  /// Return the part of `describe` after name and ports.
  virtual Json description() = 0;
  virtual Json counters_json() = 0;

  struct Identity {
    const char *node_type, *transport, *guid;
  };
  [[nodiscard]] virtual Identity identity() const = 0;

 private:
  // verbs_rpc_handler.cpp
  Result<Json> hello(ArgumentReader& arguments);
  Result<Json> ping(ArgumentReader& arguments);
  Result<Json> reset(ArgumentReader& arguments);
  Result<Json> objects(ArgumentReader& arguments);
  Result<Json> destroy(ArgumentReader& arguments);
  Result<Json> devices(ArgumentReader& arguments);
  Result<Json> open(ArgumentReader& arguments);
  Result<Json> describe(ArgumentReader& arguments);
  Result<Json> port(ArgumentReader& arguments);
  Result<Json> counters(ArgumentReader& arguments);
  // rpc_memory.cpp
  Result<Json> alloc_pd(ArgumentReader& arguments);
  Result<Json> register_memory(ArgumentReader& arguments);
  Result<Json> alloc_mr(ArgumentReader& arguments);
  Result<Json> write(ArgumentReader& arguments);
  Result<Json> read(ArgumentReader& arguments);
  Result<Json> fill(ArgumentReader& arguments);
  Result<Json> checksum(ArgumentReader& arguments);
  Result<Json> alloc_mw(ArgumentReader& arguments);
  Result<Json> bind_mw(ArgumentReader& arguments);
  // rpc_completions.cpp
  Result<Json> create_channel(ArgumentReader& arguments);
  Result<Json> create_cq(ArgumentReader& arguments);
  Result<Json> notify(ArgumentReader& arguments);
  Result<Json> poll(ArgumentReader& arguments);
  // rpc_cm.cpp
  Result<Json> cm_listen(ArgumentReader& arguments);
  Result<Json> cm_connect(ArgumentReader& arguments);
  Result<Json> cm_accept(ArgumentReader& arguments);
  Result<Json> cm_establish(ArgumentReader& arguments);
  Result<Json> cm_reject(ArgumentReader& arguments);
  Result<Json> cm_disconnect(ArgumentReader& arguments);
  [[nodiscard]] Json cm_json(const CmEvent& event) const;
  // rpc_work.cpp
  Result<Json> post_send(ArgumentReader& arguments);
  Result<Json> post_recv(ArgumentReader& arguments);

  struct Part {
    const Region* region = nullptr;
    std::uint64_t address = 0, offset = 0, length = 0;  ///< `address`: in application memory
  };
  Part read_part(ArgumentReader& arguments, std::optional<std::uint64_t> length = {});
  std::vector<Sge> read_sges(ArgumentReader& arguments, std::vector<std::uint8_t>* inline_bytes = nullptr);
  SendRequest read_send(ArgumentReader& arguments, std::uint32_t qp);
  Json port_json();
  void release_all();
  Result<void> release(Kind kind, std::uint32_t handle);

  Verbs& verbs_;
  Step step_;
  std::string name_, greeting_;
  Commands commands_;
  bool begun_ = false;
  std::map<std::uint32_t, Kind> kinds_;
  std::map<std::uint32_t, std::uint64_t> pieces_;  ///< allocated memory by region
  std::uint32_t opened_ = 0;                       ///< newest handle of the device
};

/// Return the symbolic name of an error number, such as "ENOENT".
std::string errno_name(int number);

}  // namespace rdmawire::device
