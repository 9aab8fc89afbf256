#include "replay/wires/devices.hpp"

#include <sys/socket.h>
#include <sys/stat.h>

#include <cerrno>

#include "replay/wires/descriptor.hpp"
#include "replay/wires/interface.hpp"

namespace rdmawire::replay {
namespace {

// Why this process cannot have a socket of that family; empty: it can.
std::string refusal(const Interface& interface, int family) {
  const Descriptor tried(socket(family, SOCK_RAW | SOCK_CLOEXEC, 0));
  return tried ? "" : interface.failed("opening a socket", errno).message;
}

}  // namespace

std::vector<InterfaceDevice> interface_devices() {
  std::vector<InterfaceDevice> devices;
  for (const std::string& name : Interface::names()) {
    auto found = Interface::find(name, name);
    if (!found) continue;  // it went away meanwhile
    InterfaceDevice device;
    device.name = name;
    device.mtu = found->mtu();
    device.bits_per_second = found->bits_per_second();
    device.driver = found->driver();
    const auto link = found->check_link();
    device.state = link ? "up" : found->is_up() ? "no carrier" : "down";
    if (const auto kind = found->check_ethernet(); !kind)
      device.packet_why_not = device.xdp_why_not = kind.error().message;
    else if (!link)
      device.packet_why_not = device.xdp_why_not = link.error().message;
    if (device.packet_why_not.empty()) device.packet_why_not = refusal(*found, AF_PACKET);
    if (device.xdp_why_not.empty()) device.xdp_why_not = refusal(*found, AF_XDP);
    devices.push_back(std::move(device));
  }
  return devices;
}

std::optional<bool> in_first_namespace() {
  struct stat ours {
  }, first{};
  if (stat("/proc/thread-self/ns/net", &ours) != 0 || stat("/proc/1/ns/net", &first) != 0) return std::nullopt;
  return ours.st_ino == first.st_ino && ours.st_dev == first.st_dev;
}

}  // namespace rdmawire::replay
