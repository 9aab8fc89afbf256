#pragma once
/// The device that is certified, and how the tester reaches it.

#include <functional>
#include <optional>
#include <string>

#include "conformance/cases/conversation.hpp"
#include "conformance/cases/queue_pair.hpp"
#include "replay/peer/queue_pair.hpp"
#include "replay/peer/verbs.hpp"
#include "replay/wires/wire.hpp"

namespace rdmawire::conformance {

/// One way to the device: over one entry of its GID table.
struct Way {
  Path path;
  std::uint32_t gid_index = 0;
};

/// Its verbs through an agent, its port over a wire. The wire gives what is for the tester alone: address resolution is
/// answered below it.
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
  Patience patience;
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
};

}  // namespace rdmawire::conformance
