#include "replay/player/targets.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "replay/wires/devices.hpp"
#include "replay/wires/interface.hpp"

namespace rdmawire::replay {
Target judge_target(const WireSpec& wire) {
  if (wire.kind == "null") return {"", "nowhere", false, true};
  if (wire.kind == "file") return {"", "a file", false, true};
  if (wire.kind == "unix") return {"", "a socket: port of a virtual machine", false, true};
  if (wire.kind != "packet" && wire.kind != "xdp") return {wire.address, "a device: may lead anywhere", false, false};

  const auto interface = Interface::find(wire.text, wire.address);
  if (!interface) return {wire.address, "no such interface", true, false};
  const std::string driver = interface->driver();
  constexpr std::array<std::string_view, 3> made_up{"veth", "tun", "dummy"};
  const bool is_virtual = wire.address == "lo" || std::find(made_up.begin(), made_up.end(), driver) != made_up.end();
  const std::string kind = wire.address == "lo" ? "the loopback interface" : driver.empty() ? "an interface" : driver;
  if (!is_virtual) return {wire.address, fmt::format("{}: may lead anywhere", kind), false, false};
  const auto first = in_first_namespace();
  if (first == false) return {wire.address, fmt::format("{} in a private network namespace", kind), false, true};
  return {wire.address,
          fmt::format("{}, {}", kind,
                      first ? "in the host's initial network namespace"
                            : "in a network namespace that cannot be compared with that of process 1"),
          false, false};
}

}  // namespace rdmawire::replay
