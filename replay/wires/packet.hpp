#pragma once
/// A local network interface through AF_PACKET.

#include <string>

#include "replay/wires/spec.hpp"
#include "replay/wires/transmission.hpp"
#include "replay/wires/wire.hpp"

namespace rdmawire::replay {

struct PacketWireOptions {
  std::string interface;
  bool bypass = false;      ///< bypass the queueing discipline (PACKET_QDISC_BYPASS): faster, without traffic shaping
  bool incoming = false;    ///< receive() returns only frames received from the network, not frames sent by this host
  bool receive = true;      ///< false: send-only, with less work in the kernel
  bool promiscuous = true;  ///< also receive frames to other addresses
  bool hardware_time = false;  ///< use receive timestamps of the device. Its clock is synchronized at the first frame
  Transmission::Launch launch =
      Transmission::Launch::none;  ///< the kernel or the device holds frames until their times
  Transmission::Stamps stamps = Transmission::Stamps::none;  ///< transmit timestamps
  std::optional<std::uint32_t> priority = {};                ///< SO_PRIORITY, which queueing disciplines map to queues
  std::string name = {};                                     ///< name of the wire. Empty: "packet:" + interface
};

/// Ethernet interfaces only. Stripped VLAN tags and offloaded checksums are restored, so that frames are as on the
/// line. Frames that the kernel or the device aggregated (GRO, LRO, TSO) stay aggregated.
WireResult<std::unique_ptr<Wire>> open_packet_wire(const PacketWireOptions& options);
WireResult<std::unique_ptr<Wire>> open_packet_wire(const WireSpec& spec);

}  // namespace rdmawire::replay
