#pragma once
/// The port: its addresses, tables and neighbors.

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

  /// Return the index of a GID of this type and VLAN. A17.4.4, CA17-41.
  [[nodiscard]] std::optional<std::uint8_t> find(const Gid& gid, GidType type, std::uint16_t vlan) const;
  /// Return the RoCEv2 entry for a destination: same IP version, longest common prefix. `source` selects one address.
  /// Zeros: any.
  [[nodiscard]] std::optional<std::uint8_t> source_for(const Gid& to, const Gid& source) const;
  [[nodiscard]] std::optional<Mac> mac_of(const Gid& gid) const;
  /// Store the Ethernet address of a neighbor. Ignored if the table is full.
  void learn(const Gid& gid, const Mac& mac);
};

/// True if both P_Keys name the same partition and at least one is a full member. IBTA vol 1, 10.9.
constexpr bool pkeys_match(std::uint16_t a, std::uint16_t b) {
  return ((a ^ b) & 0x7fff) == 0 && (a & 0x7fff) != 0 && ((a | b) & 0x8000) != 0;
}

}  // namespace rdmawire::device
