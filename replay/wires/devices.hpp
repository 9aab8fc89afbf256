#pragma once
/// What is here to send from and to receive on. Looking changes nothing, and sends nothing.

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
  std::uint64_t bits_per_second = 0;  ///< 0: not known
  std::string driver;                 ///< empty: not known
  std::string packet_why_not;         ///< empty: packet: can be opened here
  std::string xdp_why_not;            ///< empty: xdp: can be tried; whether without copies shows when it is opened
};

std::vector<InterfaceDevice> interface_devices();

/// Whether this thread is in the network namespace that the machine started with: that of the first process or, where
/// that one hides it, of the oldest ancestor that does not. Nothing: none of them can be seen.
std::optional<bool> in_first_namespace();

}  // namespace rdmawire::replay
