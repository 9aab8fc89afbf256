#pragma once
/// The iWARP reference device at 10.0.0.1, an agent client that calls its verbs, and a host at 10.0.0.200 whose TCP
/// connections the tester controls.

#include <memory>
#include <span>

#include "conformance/device/iwarp/adapter.hpp"
#include "conformance/device/iwarp/rpc_handler.hpp"
#include "conformance/device/iwarp/virtual_tcp.hpp"
#include "conformance/device/roce/rpc_server.hpp"

namespace rdmawire::endpoint {

/// Commands and connection events are processed one at a time, so a run with a single-threaded tester is reproducible.
/// Events that a call causes are sent after its response, and before the response to the next command.
class ReferenceEndpoint {
 public:
  static peer::PeerResult<std::unique_ptr<ReferenceEndpoint>> start(AdapterOptions options = {});
  ReferenceEndpoint(const ReferenceEndpoint&) = delete;
  ReferenceEndpoint& operator=(const ReferenceEndpoint&) = delete;

  peer::Peer& peer() { return server_->peer(); }
  VirtualTcp& tcp() { return tcp_; }

  // The following functions must not be called while a command is running.
  void set_fault(Fault fault);
  /// Replace all faults. `blind`: pointers into blind_faults().
  void set_faults(std::span<const Fault> faults, std::vector<const IwarpBlindFault*> blind = {});
  [[nodiscard]] bool has_fault(Fault fault);
  [[nodiscard]] std::vector<const IwarpBlindFault*> blind_faults();
  /// Set the MPA settings of new streams.
  void wish(const machines::MpaSettings& mpa);
  [[nodiscard]] machines::MpaSettings wished();
  /// Enable or disable RFC 7306 for new queue pairs.
  void set_extensions(bool on);
  /// Change the TCP segment size of all connections of the device, as path MTU discovery does.
  void set_emss(std::uint32_t emss);

 private:
  explicit ReferenceEndpoint(AdapterOptions options);
  std::vector<std::string> events();

  Adapter adapter_;
  VirtualTcp tcp_;
  RpcHandler handler_;
  std::unique_ptr<device::RpcServer> server_;
};

}  // namespace rdmawire::endpoint
