#pragma once
/// The reference device, ready to be tested like any other: a client that drives its verbs, and a wire to its port.

#include <memory>

#include "conformance/device/roce/device.hpp"
#include "conformance/device/roce/rpc_handler.hpp"
#include "conformance/device/roce/rpc_server.hpp"
#include "conformance/device/roce/virtual_wire.hpp"

namespace rdmawire::device {

/// A device at 10.0.0.1, fd00::1 and its link-local address (02:00:00:00:00:01), and in VLAN 7 at 10.0.7.1; each as a
/// GID of RoCEv1 and one of RoCEv2.
DeviceOptions reference_options(std::uint64_t seed = 1);

/// The client's commands and what happens on the wire take turns: a run with one thread of the tester's is the same
/// each time.
class Reference {
 public:
  static peer::PeerResult<std::unique_ptr<Reference>> start(DeviceOptions options = reference_options());
  Reference(const Reference&) = delete;
  Reference& operator=(const Reference&) = delete;

  /// Not while a command or the wire is at work.
  Device& device() { return device_; }
  VirtualWire& wire() { return wire_; }
  peer::Peer& peer() { return server_->peer(); }
  /// Tells the device the Ethernet address of somebody, as address resolution would.
  void learn(const Gid& gid, const Mac& mac);

 private:
  explicit Reference(DeviceOptions options);

  Device device_;
  VirtualWire wire_;
  RpcHandler face_;
  std::unique_ptr<RpcServer> server_;
};

}  // namespace rdmawire::device
