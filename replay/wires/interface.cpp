#include "replay/wires/interface.hpp"

#include <fmt/ranges.h>
#include <linux/ethtool.h>
#include <linux/if_ether.h>
#include <linux/if_link.h>
#include <linux/rtnetlink.h>
#include <linux/sockios.h>
#include <net/if.h>
#include <net/if_arp.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>

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
        wire_error(WireError::Kind::down, ENOLINK, "{}: no carrier; check the cable and the peer", wire_));
  link_checked_ = now;
  return {};
}

std::optional<LinkCounters> Interface::counters() const {
  const Descriptor netlink(socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_ROUTE));
  if (!netlink) return std::nullopt;
  struct {
    nlmsghdr header;
    ifinfomsg link;
  } request{};
  request.header.nlmsg_len = sizeof request;
  request.header.nlmsg_type = RTM_GETLINK;
  request.header.nlmsg_flags = NLM_F_REQUEST;
  request.link.ifi_index = static_cast<int>(index_);
  if (::send(netlink.get(), &request, sizeof request, 0) < 0) return std::nullopt;
  // The kernel has queued the answer.
  alignas(nlmsghdr) std::array<char, 16'384> answer;
  const ssize_t got = ::recv(netlink.get(), answer.data(), answer.size(), MSG_DONTWAIT);
  nlmsghdr header;
  if (got < static_cast<ssize_t>(NLMSG_LENGTH(sizeof(ifinfomsg)))) return std::nullopt;
  std::memcpy(&header, answer.data(), sizeof header);
  if (header.nlmsg_type != RTM_NEWLINK) return std::nullopt;
  std::optional<LinkCounters> counters;
  const std::size_t end = std::min<std::size_t>(header.nlmsg_len, static_cast<std::size_t>(got));
  std::uint32_t losses = 0;
  rtattr attribute;
  for (std::size_t at = NLMSG_SPACE(sizeof(ifinfomsg)); at + sizeof attribute <= end;) {
    std::memcpy(&attribute, answer.data() + at, sizeof attribute);
    if (attribute.rta_len < sizeof attribute || at + attribute.rta_len > end) break;
    const char* const value = answer.data() + at + sizeof attribute;
    const std::size_t bytes = attribute.rta_len - sizeof attribute;
    if (attribute.rta_type == IFLA_STATS64) {
      rtnl_link_stats64 statistics{};
      std::memcpy(&statistics, value, std::min(bytes, sizeof statistics));
      counters.emplace();
      counters->sent = statistics.tx_packets;
      counters->sent_bytes = statistics.tx_bytes;
      counters->discarded = statistics.tx_dropped + statistics.tx_carrier_errors;
    } else if (attribute.rta_type == IFLA_CARRIER_DOWN_COUNT && bytes >= sizeof losses) {
      std::memcpy(&losses, value, sizeof losses);
    }
    at += RTA_ALIGN(attribute.rta_len);
  }
  if (counters) counters->losses = losses;
  return counters;
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
      if (!is_there()) return failed(doing, ENODEV);
      if (is_up())
        hint = "; no carrier";
      else
        return wire_error(kind, number, "{}: {}: {}; run: ip link set dev {} up", wire_, doing, errno_text(number),
                          name_);
      break;
    default: break;
  }
  return wire_error(kind, number, "{}: {}: {}{}", wire_, doing, errno_text(number), hint);
}

}  // namespace rdmawire::replay
