#include "replay/player/targets.hpp"

#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <fstream>
#include <optional>
#include <utility>

#include "replay/wires/interface.hpp"

namespace rdmawire::replay {
namespace {

/// The network namespace of a process, or of this thread ("thread-self"); nothing where it cannot be seen.
std::optional<std::pair<dev_t, ino_t>> namespace_of(const std::string& process) {
  struct stat seen {};
  if (::stat(("/proc/" + process + "/ns/net").c_str(), &seen) != 0) return std::nullopt;
  return std::pair(seen.st_dev, seen.st_ino);
}

/// 0: none, or it cannot be seen.
long parent_of(long process) {
  std::ifstream status("/proc/" + std::to_string(process) + "/status");
  for (std::string line; std::getline(status, line);)
    if (line.starts_with("PPid:")) return std::strtol(line.c_str() + 5, nullptr, 10);
  return 0;
}

/// Whether this thread is in the machine's first network namespace: that of the first process or, where that one hides
/// it, of the oldest ancestor that does not. Where nothing can be seen, it counts as being there.
bool in_first_namespace() {
  const auto own = namespace_of("thread-self");
  auto first = namespace_of("1");
  if (!first)
    for (long process = ::getpid(); process > 1; process = parent_of(process))
      if (const auto seen = namespace_of(std::to_string(process))) first = seen;
  return !own || !first || *own == *first;
}

}  // namespace

Target judge_target(const WireSpec& wire) {
  if (wire.kind == "null") return {"", "nowhere", false, true};
  if (wire.kind == "file") return {"", "a file", false, true};
  if (wire.kind == "unix") return {"", "a socket: a virtual machine's port", false, true};
  if (wire.kind != "packet" && wire.kind != "xdp") return {wire.address, "a device: may lead anywhere", false, false};

  const auto interface = Interface::find(wire.text, wire.address);
  if (!interface) return {wire.address, "no such interface", true, false};
  const std::string driver = interface->driver();
  constexpr std::array<std::string_view, 3> made_up{"veth", "tun", "dummy"};
  const bool is_virtual = wire.address == "lo" || std::find(made_up.begin(), made_up.end(), driver) != made_up.end();
  const std::string kind = wire.address == "lo" ? "the loopback interface" : driver.empty() ? "an interface" : driver;
  if (is_virtual && !in_first_namespace())
    return {wire.address, fmt::format("{} in a network namespace of its own", kind), false, true};
  return {wire.address,
          is_virtual ? fmt::format("{}, in the machine's first network namespace", kind)
                     : fmt::format("{}: may lead anywhere", kind),
          false, false};
}

}  // namespace rdmawire::replay
