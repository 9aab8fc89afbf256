#pragma once
/// The device under test, and the paths to it.

#include <functional>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "conformance/cases/case_recorder.hpp"
#include "conformance/cases/queue_pair.hpp"
#include "replay/peer/queue_pair.hpp"
#include "replay/peer/verbs.hpp"
#include "replay/streams/tcp.hpp"
#include "replay/wires/wire.hpp"

namespace rdmawire::conformance {

/// A path to the device over one entry of its GID table.
struct Way {
  Path path;
  std::uint32_t gid_index = 0;
};

/// The family of a case or a device.
enum class Family : std::uint8_t {
  infiniband,  ///< RoCE: transports with a BTH
  iwarp,
};
std::string_view to_string(Family family);

/// Parameters of the MPA negotiation of an iWARP device that can be configured. RFC 5044, 7.1, RFC 6581, 9.
struct MpaWishes {
  std::uint8_t revision = 2;  ///< highest supported revision
  bool markers = false;       ///< request markers in the received stream
  bool crc = true;
  bool enhanced = true;       ///< as initiator of revision 2
  bool peer_to_peer = false;  ///< as initiator
  bool rtr_send = true, rtr_write = true, rtr_read = true;
  bool rdmac = false;  ///< also support revision 0. RFC 5044, appendix C

  friend bool operator==(const MpaWishes&, const MpaWishes&) = default;
};

/// Access to the device: its verbs through an agent, its port over a wire, or its streams over TCP. The wire returns
/// only frames for the tester. Address resolution is handled below it.
struct DeviceUnderTest {
  std::string name;  ///< "reference", "lab:rxe"
  peer::Peer* peer = nullptr;
  const peer::Device* device = nullptr;
  replay::Wire* wire = nullptr;
  Path path;  ///< over the GID that the cases use
  std::uint32_t gid_index = 0;
  std::optional<Way> ipv6;     ///< path over IPv6
  std::optional<Way> vlan;     ///< path with VLAN tags
  std::optional<Way> roce_v1;  ///< path with RoCEv1
  /// QP numbers that the tester used, to which a retransmission may arrive after their case.
  std::set<std::uint32_t> tester_qpns{};
  Timeouts patience;
  bool multicast = true;  ///< multicast frames are permitted. Otherwise multicast cases are skipped
  /// Whether congestion management is enabled, which verbs do not report. nullopt: unknown.
  std::optional<bool> congestion_management;
  /// Switches congestion management, if the tester can.
  std::function<void(bool)> switch_congestion_management{};
  /// Switches XRC, if the tester can. Only for the reference device.
  std::function<void(bool)> switch_xrc{};
  bool takes_slow = false;       ///< run cases that take more than a minute
  bool takes_dangerous = false;  ///< run cases of RunPolicy::dangerous
  /// Constant one-way delay in nanoseconds of a wire without loss and reordering, on which the tester observes the
  /// events of the device in order.
  std::optional<std::int64_t> wire_delay;

  /// iWARP: a host from which the device is reached over TCP. Replaces `wire` and the RoCE members.
  replay::TcpHost* tcp = nullptr;
  replay::IpAddress address{};  ///< iWARP: the device's address
  /// Sets the negotiation parameters of QPs created from now on. Only for the reference device, because verbs do not
  /// offer it.
  std::function<void(const MpaWishes&)> wish{};
  /// Enables or disables RFC 7306 for QPs created from now on. Only for the reference device.
  std::function<void(bool)> switch_extensions{};
  /// Limits the device's TCP segments, as a change of the path MTU does. Only for the reference device. RFC 5044, 4.5.
  std::function<void(std::uint32_t)> change_segments{};

  /// All paths to the device.
  [[nodiscard]] std::vector<Path> paths() const {
    std::vector<Path> all{path};
    for (const auto* way : {&ipv6, &vlan, &roce_v1})
      if (*way) all.push_back((*way)->path);
    return all;
  }
  [[nodiscard]] bool is_iwarp() const { return tcp != nullptr; }
  [[nodiscard]] Family family() const { return is_iwarp() ? Family::iwarp : Family::infiniband; }
  [[nodiscard]] std::int64_t now() const { return tcp ? tcp->now() : wire->now(); }
  [[nodiscard]] bool virtual_time() const { return tcp ? tcp->virtual_time() : wire->capabilities().virtual_time; }
};

}  // namespace rdmawire::conformance
