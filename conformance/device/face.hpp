#pragma once
/// The device as an agent's controller sees it: the commands of docs/agent.md, so that the same client drives it as a
/// real one. What waits lets virtual time go on.

#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "conformance/device/device.hpp"
#include "conformance/device/given.hpp"

namespace rdmawire::device {

class Face {
 public:
  /// Does the next thing that happens up to a time, and lets the clock go there; false: nothing was left to do until
  /// then, and the clock stands at that time.
  using Step = std::function<bool(std::int64_t until)>;

  Face(Device& device, Step step) : device_(device), step_(std::move(step)) {}

  /// One line of the protocol; gives the lines that answer it, events first.
  std::vector<std::string> ask(std::string_view line);
  /// A command by itself: its result.
  Result<Json> run(const std::string& command, const Json& arguments);
  /// What the device tells unasked, as the protocol writes it.
  std::vector<Json> events();

 private:
  using Command = Result<Json> (Face::*)(Given&);
  static const std::map<std::string, Command, std::less<>>& commands();

  // face.cpp
  Result<Json> hello(Given& given);
  Result<Json> ping(Given& given);
  Result<Json> reset(Given& given);
  Result<Json> objects(Given& given);
  Result<Json> destroy(Given& given);
  Result<Json> devices(Given& given);
  Result<Json> open(Given& given);
  Result<Json> describe(Given& given);
  Result<Json> port(Given& given);
  Result<Json> counters(Given& given);
  // face_memory.cpp
  Result<Json> alloc_pd(Given& given);
  Result<Json> open_xrcd(Given& given);
  Result<Json> register_memory(Given& given);
  Result<Json> alloc_mr(Given& given);
  Result<Json> write(Given& given);
  Result<Json> read(Given& given);
  Result<Json> fill(Given& given);
  Result<Json> checksum(Given& given);
  Result<Json> alloc_mw(Given& given);
  Result<Json> bind_mw(Given& given);
  // face_completions.cpp
  Result<Json> create_channel(Given& given);
  Result<Json> create_cq(Given& given);
  Result<Json> notify(Given& given);
  Result<Json> poll(Given& given);
  // face_queue_pairs.cpp
  Result<Json> create_srq(Given& given);
  Result<Json> modify_srq(Given& given);
  Result<Json> query_srq(Given& given);
  Result<Json> create_ah(Given& given);
  Result<Json> create_qp(Given& given);
  Result<Json> modify_qp(Given& given);
  Result<Json> query_qp(Given& given);
  Result<Json> attach_multicast(Given& given);
  Result<Json> detach_multicast(Given& given);
  // face_cm.cpp
  Result<Json> cm_listen(Given& given);
  Result<Json> cm_connect(Given& given);
  Result<Json> cm_accept(Given& given);
  Result<Json> cm_establish(Given& given);
  Result<Json> cm_reject(Given& given);
  Result<Json> cm_disconnect(Given& given);
  static Json cm_json(const CmEvent& event);
  // face_work.cpp
  Result<Json> post_send(Given& given);
  Result<Json> post_recv(Given& given);

  struct Part {
    const Region* region = nullptr;
    std::uint64_t address = 0, offset = 0, length = 0;  ///< `address`: in the consumer's memory
  };
  Part read_part(Given& given, std::optional<std::uint64_t> length = {});
  std::vector<Sge> read_sges(Given& given, std::vector<std::uint8_t>* inline_octets = nullptr);
  SendRequest read_send(Given& given, const QueuePair* qp);
  AddressVector read_path(Given& given);
  Json port_json();
  void release_all();

  enum class Kind : std::uint8_t { device, pd, xrcd, mr, mw, channel, cq, srq, ah, qp, cm_id };
  Json add(Kind kind, std::uint32_t handle);
  Result<void> release(Kind kind, std::uint32_t handle);

  Device& device_;
  Step step_;
  bool begun_ = false;
  std::map<std::uint32_t, Kind> kinds_;
  std::map<std::uint32_t, std::uint64_t> pieces_;  ///< by region: the memory that was taken for it
  std::uint32_t opened_ = 0;                       ///< the newest handle of the device
};

/// "ENOENT"
std::string errno_name(int number);

}  // namespace rdmawire::device
