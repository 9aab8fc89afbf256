#pragma once
/// Lists the devices that can send and receive frames. Read-only. Sends no packets.

#include <optional>
#include <string>
#include <vector>

#include "replay/wires/verbs.hpp"

namespace rdmawire::replay {

/// A network interface of this process's network namespace.
struct InterfaceDevice {
  std::string name;
  std::string state;  ///< "up", "down", "no carrier"
  std::uint32_t mtu = 0;
  std::uint64_t bits_per_second = 0;  ///< 0: unknown
  std::string driver;                 ///< empty: unknown
  std::string packet_why_not;         ///< why packet: cannot be opened. Empty: it can
  std::string xdp_why_not;  ///< why xdp: cannot be opened. Empty: it may work. Zero copy is only known after opening
};

std::vector<InterfaceDevice> interface_devices();

/// True if this thread is in the initial network namespace: that of process 1 or, if not visible, of the oldest visible
/// ancestor. Returns nullopt if none is visible. Requires no privileges.
std::optional<bool> in_first_namespace();

}  // namespace rdmawire::replay
