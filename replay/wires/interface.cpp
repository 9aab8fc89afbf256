#include "replay/wires/interface.hpp"

#include <fmt/ranges.h>
#include <linux/ethtool.h>
#include <linux/if_ether.h>
#include <linux/sockios.h>
#include <net/if.h>
#include <net/if_arp.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include <cerrno>

#include "dissectors/protocol/ethernet.hpp"
#include "replay/wires/clock.hpp"
#include "replay/wires/error.hpp"

namespace rdmawire::replay {
namespace {

constexpr std::int64_t link_check_interval = 1'000'000;

ifreq request_for(const std::string& interface) {
  ifreq request{};
  interface.copy(request.ifr_name, IFNAMSIZ - 1);
  return request;
}

}  // namespace

std::vector<std::string> Interface::names() {
  std::vector<std::string> list;
  if (struct if_nameindex* all = if_nameindex()) {
    for (const struct if_nameindex* i = all; i->if_index != 0; ++i) list.emplace_back(i->if_name);
    if_freenameindex(all);
  }
  return list;
}

bool Interface::ask(unsigned long request, void* ifreq) const { return ioctl(socket_.get(), request, ifreq) == 0; }

WireResult<Interface> Interface::find(std::string wire, std::string_view name) {
  Interface found;
  found.wire_ = std::move(wire);
  found.name_ = name;
  if (!name.empty() && name.size() < IFNAMSIZ) found.index_ = if_nametoindex(found.name_.c_str());
  if (found.index_ == 0)
    return tl::unexpected(wire_error(WireError::Kind::missing, ENODEV, "{}: no interface \"{}\"; available: {}",
                                     found.wire_, name, fmt::join(names(), ", ")));
  found.socket_ = Descriptor(socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  if (!found.socket_) return tl::unexpected(found.failed("open a socket", errno));
  ifreq r = request_for(found.name_);
  if (!found.ask(SIOCGIFHWADDR, &r)) return tl::unexpected(found.failed("query the interface type", errno));
  found.hardware_ = r.ifr_hwaddr.sa_family;
  r = request_for(found.name_);
  if (!found.ask(SIOCGIFMTU, &r)) return tl::unexpected(found.failed("query the MTU", errno));
  found.mtu_ = static_cast<std::uint32_t>(r.ifr_mtu);
  return found;
}

std::uint64_t Interface::bits_per_second() const {
  ethtool_cmd link{};
  link.cmd = ETHTOOL_GSET;
  ifreq r = request_for(name_);
  r.ifr_data = reinterpret_cast<char*>(&link);
  if (!ask(SIOCETHTOOL, &r)) return 0;
  const std::uint32_t megabits = ethtool_cmd_speed(&link);
  return megabits == static_cast<std::uint32_t>(SPEED_UNKNOWN) ? 0 : megabits * 1'000'000ULL;
}

std::string Interface::driver() const {
  ethtool_drvinfo about{};
  about.cmd = ETHTOOL_GDRVINFO;
  ifreq r = request_for(name_);
  r.ifr_data = reinterpret_cast<char*>(&about);
  if (!ask(SIOCETHTOOL, &r)) return {};
  return {about.driver, strnlen(about.driver, sizeof about.driver)};
}

WireResult<void> Interface::check_ethernet() const {
  if (hardware_ == ARPHRD_ETHER || hardware_ == ARPHRD_LOOPBACK) return {};
  return tl::unexpected(wire_error(WireError::Kind::unsupported, 0,
                                   "{}: {} is not Ethernet{} (hardware type {}); Ethernet frames cannot be "
                                   "sent",
                                   wire_, name_, hardware_ == ARPHRD_INFINIBAND ? " but IP over InfiniBand" : "",
                                   hardware_));
}

bool Interface::is_there() const {
  ifreq r = request_for(name_);
  return ask(SIOCGIFFLAGS, &r);
}

bool Interface::is_up() const {
  ifreq r = request_for(name_);
  return ask(SIOCGIFFLAGS, &r) && (r.ifr_flags & IFF_UP);
}

WireResult<void> Interface::check_link() {
  const std::int64_t now = wire_clock::now();
  if (now - link_checked_ < link_check_interval) return {};
  ifreq r = request_for(name_);
  if (!ask(SIOCGIFFLAGS, &r)) return tl::unexpected(failed("query the link state", errno));
  if (!(r.ifr_flags & IFF_UP))
    return tl::unexpected(wire_error(WireError::Kind::down, ENETDOWN,
                                     "{}: the interface is down; run: ip link set dev {} up", wire_, name_));
  if (!(r.ifr_flags & IFF_RUNNING))
    return tl::unexpected(
        wire_error(WireError::Kind::down, ENETDOWN, "{}: no carrier; check the cable and the peer", wire_));
  link_checked_ = now;
  return {};
}

std::size_t Interface::max_bytes(Bytes frame, std::size_t most) {
  const std::uint64_t type = frame.size() >= Ethernet::size ? load_be<2>(frame.data() + 12) : 0;
  return type == ETH_P_8021Q || type == ETH_P_8021AD ? most : most - Vlan::size;
}

WireError Interface::wrong_length(Bytes frame, std::size_t least, std::size_t most, std::string_view of) const {
  return wire_error(WireError::Kind::frame, EMSGSIZE, "{}: frame of {} bytes; the valid range is {} to {} ({})", wire_,
                    frame.size(), least, most, of);
}

WireError Interface::failed(std::string_view doing, int number) const {
  WireError::Kind kind = WireError::Kind::system;
  std::string_view hint;
  switch (number) {
    case EPERM:
    case EACCES:
      kind = WireError::Kind::forbidden;
      hint = needs_net_raw;
      break;
    case ENODEV:
    case ENXIO:
      kind = WireError::Kind::missing;
      hint = "; the interface does not exist";
      break;
    case ENETDOWN:
      kind = WireError::Kind::down;
      // The kernel returns the same error shortly after the carrier was lost.
      hint = is_up() ? "; no carrier" : "; run: ip link set dev NAME up";
      break;
    default: break;
  }
  return wire_error(kind, number, "{}: {}: {}{}", wire_, doing, errno_text(number), hint);
}

}  // namespace rdmawire::replay
