#pragma once
/// Deterministic pseudonyms for addresses. They cannot be reversed without the key.

#include <array>
#include <cstdint>
#include <unordered_map>

#include "captures/extract/siphash.hpp"

namespace rdmawire::captures {

/// Maps addresses one to one. If two addresses have a common prefix, their pseudonyms have a common prefix of the same
/// length, which preserves subnets and vendors.
///
/// Keeps unspecified, loopback, broadcast and multicast addresses, because they do not identify a host. Private, shared
/// and link-local addresses and documentation addresses of IPv6 stay in their ranges. Derived addresses are consistent:
/// an EUI-64 or GID with a MAC address, a GID with an IPv4 address, and solicited-node addresses of IPv6 and Ethernet.
class Pseudonyms {
 public:
  explicit Pseudonyms(const SipKey& key) : key_(key) {}
  /// Derives a key from a secret of any length, such as the content of a file.
  static SipKey key_of(Bytes secret);

  std::uint32_t ipv4(std::uint32_t address);
  /// Maps the low 48 bits.
  std::uint64_t mac(std::uint64_t address);
  /// Maps a GUID, or the interface identifier of an IPv6 address.
  std::uint64_t eui64(std::uint64_t identifier);
  /// Maps an address in network byte order.
  std::array<std::uint8_t, 16> ipv6(const std::uint8_t* address);

  /// Finds addresses that were mapped before in bytes that no header field describes. Copies `bytes` to `copy`, which
  /// has the same length, and replaces the addresses. Detects GIDs, IPv6 addresses, GUIDs and MAC addresses in network
  /// byte order. Replaces IPv4 addresses in text form with zeros. Ignores binary IPv4 addresses, because four bytes are
  /// too few to recognize them. Returns the number of addresses.
  std::size_t replace_known(Bytes bytes, MutableBytes copy);

 private:
  /// Kind of address. Each kind has its own mapping.
  enum class Kind : std::uint8_t { ipv4, mac, identifier, prefix, node };
  std::uint64_t map(Kind kind, std::uint64_t address);
  [[nodiscard]] std::uint64_t turned(Kind kind, std::uint64_t address) const;
  [[nodiscard]] bool knows(Kind kind, std::uint64_t address) const {
    return known_[static_cast<std::size_t>(kind)].contains(address);
  }
  [[nodiscard]] bool knows_identifier(std::uint64_t identifier) const;

  SipKey key_;
  std::array<std::unordered_map<std::uint64_t, std::uint64_t>, 5> known_;
};

}  // namespace rdmawire::captures
