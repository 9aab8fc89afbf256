#pragma once
/// A port of an RDMA device through a raw-packet QP of libibverbs: complete Ethernet frames from registered memory,
/// bypassing the kernel.

#include <array>
#include <string>
#include <vector>

#include "replay/wires/spec.hpp"
#include "replay/wires/wire.hpp"

namespace rdmawire::replay {

/// Filter for received frames: a frame must match all fields that are set.
struct VerbsSteering {
  std::optional<std::array<std::uint8_t, 6>> mac;  ///< destination
  std::optional<std::uint16_t> ethertype;
  std::vector<std::uint8_t> ip;      ///< destination, 4 or 16 bytes. Empty: any
  std::optional<std::uint16_t> udp;  ///< destination port
};

struct VerbsWireOptions {
  /// Which frames are received.
  enum class Receive : std::uint8_t {
    sniffer,  ///< all frames on the port, including offloaded RDMA traffic in both directions if the device supports it
    rest,     ///< frames that match neither another QP nor the kernel (all-default)
    steered,  ///< frames that match `steering`. No other receiver gets them
    nothing,
  };
  std::string device;
  std::uint32_t port = 1;
  Receive receive = Receive::sniffer;
  VerbsSteering steering = {};
  std::uint32_t send_depth = 512;     ///< maximum number of outstanding frames
  std::uint32_t receive_depth = 512;  ///< number of receive buffers
  std::uint32_t signal_every = 64;    ///< request a completion for one of this many frames. At most half of send_depth
  std::uint32_t inline_bytes = 0;     ///< post frames up to this length inline, for devices that require it
  std::uint32_t max_bytes = 0;  ///< maximum frame length. 0: MTU of the port's interface plus a tagged Ethernet header
  std::uint64_t rate = 0;       ///< hardware rate limit in bits per second. 0: unlimited
  std::uint32_t burst_bytes = 0;    ///< burst size for `rate`. 0: chosen by the device
  std::uint16_t typical_bytes = 0;  ///< typical frame length for `rate`. 0: chosen by the device
  bool requests = true;             ///< use ibv_wr_* if available. false: ibv_post_send
  bool hardware_time = false;       ///< use receive timestamps of the device
  bool departures = false;          ///< transmit timestamps of the device. Requests a completion for every frame
  std::uint32_t queues = 1;         ///< number of QPs. Frames of one flow use the same one. `rate` is their sum
  bool threads = false;             ///< one thread per QP
  std::string name = {};            ///< name of the wire. Empty: "verbs:" + device + "/" + port
};

/// Frames are copied into registered slots and posted as linked lists. counters() counts completed frames. A completion
/// with an error is permanent: all later calls return it.
WireResult<std::unique_ptr<Wire>> open_verbs_wire(const VerbsWireOptions& options);
/// Parses verbs:DEVICE[/PORT]. Does not check whether the device exists.
WireResult<VerbsWireOptions> verbs_options(const WireSpec& spec);
WireResult<std::unique_ptr<Wire>> open_verbs_wire(const WireSpec& spec);

/// Capabilities of an RDMA device port.
struct VerbsPort {
  std::string device;
  std::uint32_t port = 1;
  std::string state;       ///< "active", "down", …
  std::string link_layer;  ///< "Ethernet", "InfiniBand"
  std::string interface;   ///< network interface of the port. Empty: unknown
  bool raw_packets = false;
  std::string why_not;           ///< why raw packets are unavailable
  bool hardware_times = false;   ///< receive timestamps
  bool requests = false;         ///< ibv_wr_*
  std::uint64_t least_rate = 0;  ///< packet pacing, bits per second
  std::uint64_t most_rate = 0;   ///< 0: no packet pacing
};

/// All ports of all local RDMA devices. Creates and destroys a QP on each port to test for raw packets.
WireResult<std::vector<VerbsPort>> verbs_ports();

}  // namespace rdmawire::replay
