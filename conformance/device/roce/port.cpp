#include "conformance/device/roce/port.hpp"

#include <bit>

namespace rdmawire::device {

std::optional<std::uint8_t> Port::find(const Gid& gid, GidType type, std::uint16_t vlan) const {
  if (gid.is_zero()) return std::nullopt;
  for (std::size_t i = 0; i < gids.size(); ++i)
    if (gids[i].gid == gid && gids[i].type == type && gids[i].vlan == vlan) return static_cast<std::uint8_t>(i);
  return std::nullopt;
}

std::optional<std::uint8_t> Port::source_for(const Gid& to, const Gid& source) const {
  std::optional<std::uint8_t> best;
  int most = -1;
  for (std::size_t i = 0; i < gids.size(); ++i) {
    const Gid& own = gids[i].gid;
    const bool fits = gids[i].type == GidType::roce_v2 && !own.is_zero() && own.is_ipv4() == to.is_ipv4() &&
                      (source.is_zero() || source == own);
    if (!fits) continue;
    int common = 0;
    for (std::size_t at = 0; at < own.bytes.size(); ++at) {
      const auto differs = static_cast<std::uint8_t>(own.bytes[at] ^ to.bytes[at]);
      common += std::countl_zero(differs);
      if (differs != 0) break;
    }
    if (common <= most) continue;
    most = common;
    best = static_cast<std::uint8_t>(i);
  }
  return best;
}

std::optional<Mac> Port::mac_of(const Gid& gid) const {
  if (gid.is_multicast()) return multicast_mac(gid);
  for (const GidEntry& entry : gids)
    if (entry.gid == gid) return mac;
  const auto found = neighbors.find(gid);
  if (found != neighbors.end()) return found->second;
  return std::nullopt;
}

void Port::learn(const Gid& gid, const Mac& of) {
  if (gid.is_zero() || gid.is_multicast()) return;
  const auto found = neighbors.find(gid);
  if (found != neighbors.end())
    found->second = of;
  else if (neighbors.size() < most_neighbors)
    neighbors.emplace(gid, of);
}

}  // namespace rdmawire::device
