#pragma once
/// The endpoint, ready to be tested like any other device of iWARP: a client that drives its verbs, and a host beside
/// it whose TCP the tester has in its hands. The device is at 10.0.0.1, the tester at 10.0.0.200.

#include <memory>
#include <span>

#include "conformance/device/iwarp/adapter.hpp"
#include "conformance/device/iwarp/rpc_handler.hpp"
#include "conformance/device/iwarp/virtual_tcp.hpp"
#include "conformance/device/roce/rpc_server.hpp"

namespace rdmawire::endpoint {

/// The client's commands and what happens on the connections take turns: a run with one thread of the tester's is the
/// same each time. What the device tells unasked is on its way to the client when the call that caused it comes back;
/// behind the answer to any command it is there.
class ReferenceEndpoint {
 public:
  static peer::PeerResult<std::unique_ptr<ReferenceEndpoint>> start(AdapterOptions options = {});
  ReferenceEndpoint(const ReferenceEndpoint&) = delete;
  ReferenceEndpoint& operator=(const ReferenceEndpoint&) = delete;

  peer::Peer& peer() { return server_->peer(); }
  VirtualTcp& tcp() { return tcp_; }

  // Between commands.
  void set_fault(Fault fault);
  /// Exactly these from now on.
  void set_faults(std::span<const Fault> faults);
  [[nodiscard]] bool has_fault(Fault fault);
  /// How streams are set up from now on.
  void wish(const machines::MpaSettings& mpa);
  [[nodiscard]] machines::MpaSettings wished();
  /// Whether queue pairs that are made from now on have RFC 7306.
  void set_extensions(bool on);
  /// The device's segments of all connections have another size from now on, as path MTU discovery would find.
  void set_emss(std::uint32_t emss);

 private:
  explicit ReferenceEndpoint(AdapterOptions options);
  std::vector<std::string> events();

  Adapter adapter_;
  VirtualTcp tcp_;
  RpcHandler face_;
  std::unique_ptr<device::RpcServer> server_;
};

}  // namespace rdmawire::endpoint
