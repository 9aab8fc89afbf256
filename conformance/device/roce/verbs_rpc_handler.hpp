#pragma once
/// A software device as an agent's controller sees it: the commands of docs/agent.md that are the same whatever the
/// transport is, so that the same client drives it as a real one. What waits lets virtual time go on.

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
  /// Does the next thing that happens up to a time, and lets the clock go there; false: nothing was left to do until
  /// then, and the clock stands at that time.
  using Step = std::function<bool(std::int64_t until)>;

  VerbsRpcHandler(const VerbsRpcHandler&) = delete;
  VerbsRpcHandler& operator=(const VerbsRpcHandler&) = delete;
  virtual ~VerbsRpcHandler() = default;

  /// One line of the protocol; gives the lines that answer it, events first.
  std::vector<std::string> ask(std::string_view line);
  /// A command by itself: its result.
  Result<Json> run(const std::string& command, const Json& arguments);
  /// What the device tells unasked, as the protocol writes it.
  std::vector<Json> events();

 protected:
  /// `verbs` must outlive it. `own`: the name of the device, and what it says when it is greeted.
  VerbsRpcHandler(Verbs& verbs, Step step, std::string own_name, std::string greeting);

  using Command = std::function<Result<Json>(ArgumentReader&)>;
  using Commands = std::map<std::string, Command, std::less<>>;
  /// What this transport has beside the others, or instead.
  void add_commands(Commands own);
  /// A member function as a command.
  template <class Of>
  [[nodiscard]] static Command by(Of* self, Result<Json> (Of::*function)(ArgumentReader&)) {
    return [self, function](ArgumentReader& given) { return (self->*function)(given); };
  }

  enum class Kind : std::uint8_t { device, pd, xrcd, mr, mw, channel, cq, srq, ah, qp, cm_id };
  Json add(Kind kind, std::uint32_t handle);
  [[nodiscard]] const std::string& name() const { return name_; }

  /// What only some transports have: XRC domains, shared receive queues, address handles.
  virtual Result<void> release_other(Kind kind, std::uint32_t handle) = 0;
  virtual Result<void> post_srq_recv(std::uint32_t srq, ReceiveRequest request) = 0;
  /// What a send request has beyond the members that all know.
  virtual void read_more(ArgumentReader& given, std::uint32_t qp, SendRequest& into) = 0;
  /// The highest immediate data.
  [[nodiscard]] virtual std::uint64_t most_immediate() const { return 0xffff'ffff; }
  /// What the transport tells of the port.
  virtual Json own_port() = 0;
  /// What `describe` says beside name and ports.
  virtual Json description() = 0;
  virtual Json counters_json() = 0;

  struct Identity {
    const char *node_type, *transport, *guid;
  };
  [[nodiscard]] virtual Identity identity() const = 0;

 private:
  // verbs_face.cpp
  Result<Json> hello(ArgumentReader& given);
  Result<Json> ping(ArgumentReader& given);
  Result<Json> reset(ArgumentReader& given);
  Result<Json> objects(ArgumentReader& given);
  Result<Json> destroy(ArgumentReader& given);
  Result<Json> devices(ArgumentReader& given);
  Result<Json> open(ArgumentReader& given);
  Result<Json> describe(ArgumentReader& given);
  Result<Json> port(ArgumentReader& given);
  Result<Json> counters(ArgumentReader& given);
  // face_memory.cpp
  Result<Json> alloc_pd(ArgumentReader& given);
  Result<Json> register_memory(ArgumentReader& given);
  Result<Json> alloc_mr(ArgumentReader& given);
  Result<Json> write(ArgumentReader& given);
  Result<Json> read(ArgumentReader& given);
  Result<Json> fill(ArgumentReader& given);
  Result<Json> checksum(ArgumentReader& given);
  Result<Json> alloc_mw(ArgumentReader& given);
  Result<Json> bind_mw(ArgumentReader& given);
  // face_completions.cpp
  Result<Json> create_channel(ArgumentReader& given);
  Result<Json> create_cq(ArgumentReader& given);
  Result<Json> notify(ArgumentReader& given);
  Result<Json> poll(ArgumentReader& given);
  // face_cm.cpp
  Result<Json> cm_listen(ArgumentReader& given);
  Result<Json> cm_connect(ArgumentReader& given);
  Result<Json> cm_accept(ArgumentReader& given);
  Result<Json> cm_establish(ArgumentReader& given);
  Result<Json> cm_reject(ArgumentReader& given);
  Result<Json> cm_disconnect(ArgumentReader& given);
  [[nodiscard]] Json cm_json(const CmEvent& event) const;
  // face_work.cpp
  Result<Json> post_send(ArgumentReader& given);
  Result<Json> post_recv(ArgumentReader& given);

  struct Part {
    const Region* region = nullptr;
    std::uint64_t address = 0, offset = 0, length = 0;  ///< `address`: in the consumer's memory
  };
  Part read_part(ArgumentReader& given, std::optional<std::uint64_t> length = {});
  std::vector<Sge> read_sges(ArgumentReader& given, std::vector<std::uint8_t>* inline_bytes = nullptr);
  SendRequest read_send(ArgumentReader& given, std::uint32_t qp);
  Json port_json();
  void release_all();
  Result<void> release(Kind kind, std::uint32_t handle);

  Verbs& verbs_;
  Step step_;
  std::string name_, greeting_;
  Commands commands_;
  bool begun_ = false;
  std::map<std::uint32_t, Kind> kinds_;
  std::map<std::uint32_t, std::uint64_t> pieces_;  ///< by region: the memory that was taken for it
  std::uint32_t opened_ = 0;                       ///< the newest handle of the device
};

/// "ENOENT"
std::string errno_name(int number);

}  // namespace rdmawire::device
