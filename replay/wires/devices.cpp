#include "replay/wires/devices.hpp"

#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <fstream>
#include <utility>

#include "replay/wires/descriptor.hpp"
#include "replay/wires/interface.hpp"

namespace rdmawire::replay {
namespace {

// Why this process cannot create a socket of this family. Empty: it can.
std::string refusal(const Interface& interface, int family) {
  const Descriptor tried(socket(family, SOCK_RAW | SOCK_CLOEXEC, 0));
  return tried ? "" : interface.failed("open a socket", errno).message;
}

// Identifies the network namespace of a process, or of this thread ("thread-self"). nullopt if not visible. Each
// namespace has its own inodes below /proc/PID/net. All users may read them, while /proc/PID/ns/net requires the right
// to trace the process.
std::optional<std::pair<dev_t, ino_t>> namespace_of(const std::string& process) {
  struct stat seen {};
  if (::stat(("/proc/" + process + "/net/dev").c_str(), &seen) != 0) return std::nullopt;
  return std::pair(seen.st_dev, seen.st_ino);
}

// 0: no visible parent.
long parent_of(long process) {
  std::ifstream status("/proc/" + std::to_string(process) + "/status");
  for (std::string line; std::getline(status, line);)
    if (line.starts_with("PPid:")) return std::strtol(line.c_str() + 5, nullptr, 10);
  return 0;
}

}  // namespace

std::vector<InterfaceDevice> interface_devices() {
  std::vector<InterfaceDevice> devices;
  for (const std::string& name : Interface::names()) {
    auto found = Interface::find(name, name);
    if (!found) continue;  // the interface was removed
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
  const auto own = namespace_of("thread-self");
  auto first = namespace_of("1");
  if (!first)
    for (long process = ::getppid(); process > 1; process = parent_of(process))
      if (const auto seen = namespace_of(std::to_string(process))) first = seen;
  if (!own || !first) return std::nullopt;
  return *own == *first;
}

}  // namespace rdmawire::replay
