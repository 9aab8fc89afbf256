#pragma once
/// The RoCE reference device, an agent client that calls its verbs, and a wire to its port.

#include <memory>

#include "conformance/device/roce/device.hpp"
#include "conformance/device/roce/rpc_handler.hpp"
#include "conformance/device/roce/rpc_server.hpp"
#include "conformance/device/roce/virtual_wire.hpp"

namespace rdmawire::device {

/// Return options of a device with MAC 02:00:00:00:00:01 and the addresses 10.0.0.1, fd00::1, its link-local address,
/// and 10.0.7.1 in VLAN 7. Each address has a RoCEv1 GID and a RoCEv2 GID.
DeviceOptions reference_options(std::uint64_t seed = 1);

/// Commands and wire events are processed one at a time, so a run with a single-threaded tester is reproducible.
class Reference {
 public:
  static peer::PeerResult<std::unique_ptr<Reference>> start(DeviceOptions options = reference_options());
  Reference(const Reference&) = delete;
  Reference& operator=(const Reference&) = delete;

  /// Return the device. It must not be used while a command or a call of the wire is running.
  Device& device() { return device_; }
  VirtualWire& wire() { return wire_; }
  peer::Peer& peer() { return server_->peer(); }
  /// Add a neighbor's Ethernet address, as address resolution does.
  void learn(const Gid& gid, const Mac& mac);

 private:
  explicit Reference(DeviceOptions options);

  Device device_;
  VirtualWire wire_;
  RpcHandler handler_;
  std::unique_ptr<RpcServer> server_;
};

}  // namespace rdmawire::device
