#pragma once
/// A network interface of this machine, through AF_PACKET.

#include <string>

#include "replay/wires/spec.hpp"
#include "replay/wires/wire.hpp"

namespace rdmawire::replay {

struct PacketWireOptions {
  std::string interface;
  bool bypass = false;         ///< past the queueing discipline (PACKET_QDISC_BYPASS): faster, and not shaped
  bool incoming = false;       ///< receive() gives only what comes from the line, not what this machine's stack sends
  bool receive = true;         ///< false: only sends, and the kernel has less to do for it
  bool promiscuous = true;     ///< frames to foreign addresses, too
  bool hardware_time = false;  ///< the device stamps what arrives; its clock is set to ours at the first frame
  std::string name = {};       ///< of the wire; empty: "packet:" + interface
};

/// Ethernet interfaces only. VLAN tags that the kernel took off and checksums that it left to the device are put back,
/// so that frames are as they are on the line; frames that the kernel or the device joined to longer ones (GRO, LRO,
/// TSO) stay joined.
WireResult<std::unique_ptr<Wire>> open_packet_wire(const PacketWireOptions& options);
WireResult<std::unique_ptr<Wire>> open_packet_wire(const WireSpec& spec);

}  // namespace rdmawire::replay
