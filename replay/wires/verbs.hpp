#pragma once
/// A port of an RDMA device, through a raw-packet queue pair of libibverbs: whole Ethernet frames from registered
/// memory, past the kernel.

#include <array>
#include <string>
#include <vector>

#include "replay/wires/spec.hpp"
#include "replay/wires/wire.hpp"

namespace rdmawire::replay {

/// Which arriving frames a queue pair takes: those that fit everything that is given here.
struct VerbsSteering {
  std::optional<std::array<std::uint8_t, 6>> mac;  ///< the destination's
  std::optional<std::uint16_t> ethertype;
  std::vector<std::uint8_t> ip;      ///< the destination's, 4 or 16 bytes; empty: any
  std::optional<std::uint16_t> udp;  ///< the destination port
};

struct VerbsWireOptions {
  /// What arrives here.
  enum class Receive : std::uint8_t {
    sniffer,  ///< everything on the port, offloaded RDMA traffic in both directions included where the device can
    rest,     ///< what no other queue pair and not the kernel was given (all-default)
    steered,  ///< what `steering` says; then nobody else is given it
    nothing,
  };
  std::string device;
  std::uint32_t port = 1;
  Receive receive = Receive::sniffer;
  VerbsSteering steering = {};
  std::uint32_t send_depth = 512;     ///< frames that may be on their way
  std::uint32_t receive_depth = 512;  ///< buffers for what arrives
  std::uint32_t signal_every = 64;    ///< of how many frames one is completed aloud; at most half of send_depth
  std::uint32_t inline_bytes = 0;     ///< frames up to this length are posted in line, for devices that demand it
  std::uint32_t max_bytes = 0;        ///< of a frame; 0: the MTU of the port's interface and a tagged Ethernet header
  std::uint64_t rate = 0;             ///< bits a second that the device holds this queue pair to; 0: no limit
  std::uint32_t burst_bytes = 0;      ///< that may leave at once under `rate`; 0: the device's choice
  std::uint16_t typical_bytes = 0;    ///< of a frame, for the device's calculation; 0: the device's choice
  bool requests = true;               ///< ibv_wr_* where offered; false: ibv_post_send
  bool hardware_time = false;         ///< the device stamps what arrives
  std::string name = {};              ///< of the wire; empty: "verbs:" + device + "/" + port
};

/// Frames are copied into registered slots and posted in linked batches; counters() count what the device completed. A
/// completion with error ends the wire: its error is given from then on.
WireResult<std::unique_ptr<Wire>> open_verbs_wire(const VerbsWireOptions& options);
/// verbs:DEVICE[/PORT]. What the text asks for; whether there is such a device shows when it is opened.
WireResult<VerbsWireOptions> verbs_options(const WireSpec& spec);
WireResult<std::unique_ptr<Wire>> open_verbs_wire(const WireSpec& spec);

/// What an RDMA device's port is able to do.
struct VerbsPort {
  std::string device;
  std::uint32_t port = 1;
  std::string state;       ///< "active", "down", …
  std::string link_layer;  ///< "Ethernet", "InfiniBand"
  std::string interface;   ///< the network interface of the port; empty: not known
  bool raw_packets = false;
  std::string why_not;           ///< when it has no raw packets: the reason
  bool hardware_times = false;   ///< of arriving frames
  bool requests = false;         ///< ibv_wr_*
  std::uint64_t least_rate = 0;  ///< packet pacing, bits a second
  std::uint64_t most_rate = 0;   ///< 0: there is none
};

/// Every port of every RDMA device here; what raw packets need is tried by a queue pair that is given back at once.
WireResult<std::vector<VerbsPort>> verbs_ports();

}  // namespace rdmawire::replay
