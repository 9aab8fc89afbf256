#pragma once
/// The device that is certified, and how the tester reaches it.

#include <functional>
#include <optional>
#include <string>

#include "conformance/cases/conversation.hpp"
#include "conformance/cases/queue_pair.hpp"
#include "replay/peer/queue_pair.hpp"
#include "replay/peer/verbs.hpp"
#include "replay/streams/tcp.hpp"
#include "replay/wires/wire.hpp"

namespace rdmawire::conformance {

/// One way to the device: over one entry of its GID table.
struct Way {
  Path path;
  std::uint32_t gid_index = 0;
};

/// What a case speaks, and what a device is of.
enum class Family : std::uint8_t {
  infiniband,  ///< RoCE: what has a BTH
  iwarp,
};
std::string_view to_string(Family family);

/// How a device of iWARP asks for its streams to be set up, where that can be chosen. RFC 5044, 7.1; RFC 6581, 9.
struct MpaWishes {
  std::uint8_t revision = 2;  ///< the highest that it speaks
  bool markers = false;       ///< in what it receives
  bool crc = true;
  bool enhanced = true;       ///< as initiator of revision 2
  bool peer_to_peer = false;  ///< as initiator
  bool rtr_send = true, rtr_write = true, rtr_read = true;
  bool rdmac = false;  ///< it speaks revision 0, too. RFC 5044, appendix C

  friend bool operator==(const MpaWishes&, const MpaWishes&) = default;
};

/// Its verbs through an agent, its port over a wire, or its streams over TCP. The wire gives what is for the tester
/// alone: address resolution is answered below it.
struct DeviceUnderTest {
  std::string name;  ///< "reference", "lab:rxe"
  peer::Peer* peer = nullptr;
  const peer::Device* device = nullptr;
  replay::Wire* wire = nullptr;
  Path path;  ///< over the GID that the tests use
  std::uint32_t gid_index = 0;
  std::optional<Way> ipv6;     ///< another way, over IPv6
  std::optional<Way> vlan;     ///< another way, with VLAN tags
  std::optional<Way> roce_v1;  ///< another way, of RoCEv1
  Timeouts patience;
  bool multicast = true;  ///< frames to groups may be sent; else cases of multicast are not run
  /// Whether congestion management is there and switched on. Verbs do not tell; nothing: nobody said.
  std::optional<bool> congestion_management;
  /// Switches it, where the tester can.
  std::function<void(bool)> switch_congestion_management{};
  bool takes_slow = false;       ///< cases that take more than a minute are run
  bool takes_dangerous = false;  ///< cases that may leave it hanging are run
  /// Nanoseconds on the way, in each direction, where they are always the same and nothing is lost or overtaken: then
  /// what the tester's end shows is what the device's does.
  std::optional<std::int64_t> wire_delay;

  /// Of iWARP: a host beside it, from which it is reached over TCP; `wire`, and what else is of RoCE, is not there.
  replay::TcpHost* tcp = nullptr;
  replay::IpAddress address{};  ///< of iWARP: its own
  /// Makes streams of queue pairs that are made from now on begin so. Of the reference device alone: verbs do not offer
  /// it.
  std::function<void(const MpaWishes&)> wish{};
  /// Whether queue pairs that are made from now on have RFC 7306. Likewise.
  std::function<void(bool)> switch_extensions{};
  /// Its TCP segments have so many bytes from now on, as if the path's MTU had changed. Likewise. RFC 5044, 4.5.
  std::function<void(std::uint32_t)> change_segments{};

  [[nodiscard]] bool is_iwarp() const { return tcp != nullptr; }
  [[nodiscard]] Family family() const { return is_iwarp() ? Family::iwarp : Family::infiniband; }
  [[nodiscard]] std::int64_t now() const { return tcp ? tcp->now() : wire->now(); }
  [[nodiscard]] bool virtual_time() const { return tcp ? tcp->virtual_time() : wire->capabilities().virtual_time; }
};

}  // namespace rdmawire::conformance
