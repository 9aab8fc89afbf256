#pragma once
/// A port: addresses, GID table, P_Key table and neighbors.

#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "conformance/device/roce/addresses.hpp"

namespace rdmawire::device {

struct Port {
  Mac mac{0x02, 0, 0, 0, 0, 1};
  std::uint32_t mtu = 4096;  ///< maximum payload of a packet in bytes
  std::vector<GidEntry> gids;
  std::vector<std::uint16_t> pkeys{0xffff};
  std::uint64_t bits_per_second = 100'000'000'000;
  std::map<Gid, Mac> neighbors;

  static constexpr std::size_t most_neighbors = 1024;

  /// Return the index of the GID with this type and VLAN. nullopt: there is none. A17.4.4, CA17-41.
  [[nodiscard]] std::optional<std::uint8_t> find(const Gid& gid, GidType type, std::uint16_t vlan) const;
  /// Return the index of the RoCEv2 GID for a destination, which has the same IP version and the longest common prefix.
  /// `source`: the address that the entry must have. Zero: any.
  [[nodiscard]] std::optional<std::uint8_t> source_for(const Gid& to, const Gid& source) const;
  [[nodiscard]] std::optional<Mac> mac_of(const Gid& gid) const;
  /// Store the Ethernet address of a neighbor, unless the table is full.
  void learn(const Gid& gid, const Mac& mac);
};

/// True if both P_Keys name the same partition and at least one is a full member. IBTA vol 1, 10.9.
constexpr bool pkeys_match(std::uint16_t a, std::uint16_t b) {
  return ((a ^ b) & 0x7fff) == 0 && (a & 0x7fff) != 0 && ((a | b) & 0x8000) != 0;
}

}  // namespace rdmawire::device
