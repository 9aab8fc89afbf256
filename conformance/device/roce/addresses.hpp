#pragma once
/// Addresses of a RoCE port: MAC addresses, GIDs and address vectors.

#include <array>
#include <cstdint>

namespace rdmawire::device {

using Mac = std::array<std::uint8_t, 6>;

/// A GID: an IPv6 address, or an IPv4 address in the form ::ffff:a.b.c.d. IBTA vol 1, A17.3.1 and A17.4.
struct Gid {
  std::array<std::uint8_t, 16> bytes{};

  static constexpr Gid ipv4(std::uint32_t address) {
    Gid gid;
    gid.bytes[10] = gid.bytes[11] = 0xff;
    for (unsigned i = 0; i < 4; ++i) gid.bytes[12 + i] = static_cast<std::uint8_t>(address >> (24 - 8 * i));
    return gid;
  }
  /// Return fe80:: with the interface identifier derived from the MAC address. RFC 4291, appendix A.
  static constexpr Gid link_local(const Mac& mac) {
    return {{0xfe, 0x80, 0, 0, 0, 0, 0, 0, static_cast<std::uint8_t>(mac[0] ^ 2), mac[1], mac[2], 0xff, 0xfe, mac[3],
             mac[4], mac[5]}};
  }
  [[nodiscard]] constexpr bool is_ipv4() const {
    for (unsigned i = 0; i < 10; ++i)
      if (bytes[i] != 0) return false;
    return bytes[10] == 0xff && bytes[11] == 0xff;
  }
  [[nodiscard]] constexpr std::uint32_t ipv4_address() const {
    return static_cast<std::uint32_t>(bytes[12]) << 24 | static_cast<std::uint32_t>(bytes[13]) << 16 |
           static_cast<std::uint32_t>(bytes[14]) << 8 | bytes[15];
  }
  [[nodiscard]] constexpr bool is_multicast() const {
    return is_ipv4() ? (bytes[12] & 0xf0) == 0xe0 : bytes[0] == 0xff;
  }
  [[nodiscard]] constexpr bool is_zero() const { return *this == Gid{}; }
  friend constexpr bool operator==(const Gid&, const Gid&) = default;
  friend constexpr auto operator<=>(const Gid&, const Gid&) = default;
};

enum class GidType : std::uint8_t { roce_v1, roce_v2 };

/// Entry of a port's GID table. The GID of an empty entry is zero.
struct GidEntry {
  Gid gid;
  GidType type = GidType::roce_v2;
  std::uint16_t vlan = 0;  ///< VLAN tag of packets that use this entry. 0: no tag
};

/// Address vector of a queue pair or an address handle. 11.2.2.1 (clause number not verified), A17.4.
struct AddressVector {
  Gid dgid;
  std::uint8_t sgid_index = 0;
  std::uint8_t hop_limit = 64;
  std::uint8_t traffic_class = 0;
  std::uint32_t flow_label = 0;
  std::uint8_t sl = 0;  ///< service level, sent as the priority of the VLAN tag if there is one. A17.4.2

  friend bool operator==(const AddressVector&, const AddressVector&) = default;
};

/// Return the Ethernet multicast address of a group. RFC 1112, 6.4, RFC 2464, 7.
constexpr Mac multicast_mac(const Gid& gid) {
  if (gid.is_ipv4())
    return {0x01, 0x00, 0x5e, static_cast<std::uint8_t>(gid.bytes[13] & 0x7f), gid.bytes[14], gid.bytes[15]};
  return {0x33, 0x33, gid.bytes[12], gid.bytes[13], gid.bytes[14], gid.bytes[15]};
}

}  // namespace rdmawire::device
