#pragma once
/// Other addresses in place of the real ones: the same under one key, and impossible to turn back without it.

#include <array>
#include <cstdint>
#include <unordered_map>

#include "captures/extract/siphash.hpp"

namespace rdmawire::captures {

/// Maps addresses one to one. What two addresses share at their beginning, their pseudonyms share too (and no more), so
/// that subnets stay subnets and devices of one maker stay so.
///
/// Kept as they are, because they name no host: unspecified, loopback, broadcast and multicast addresses. Private,
/// link-local and documentation addresses stay in their ranges. An address that is made of another one keeps to it: an
/// EUI-64 or GID that holds a MAC address, a GID that holds an IPv4 address, solicited-node multicast addresses of IPv6
/// with those of Ethernet.
class Pseudonyms {
 public:
  explicit Pseudonyms(const SipKey& key) : key_(key) {}
  /// A key from a secret of any length: the content of a file, a text.
  static SipKey key_of(Bytes secret);

  std::uint32_t ipv4(std::uint32_t address);
  /// The low 48 bits.
  std::uint64_t mac(std::uint64_t address);
  /// A GUID, or an IPv6 address's interface identifier.
  std::uint64_t eui64(std::uint64_t identifier);
  /// In network byte order.
  std::array<std::uint8_t, 16> ipv6(const std::uint8_t* address);

  /// Finds addresses that were mapped before in bytes that no table describes, and puts their pseudonyms into `copy`,
  /// which is as long: GIDs and IPv6 addresses, GUIDs and MAC addresses in network order, and IPv4 addresses as text,
  /// which become zeros. (The four bytes of an IPv4 address are too few to know it by.) Returns how many there were.
  std::size_t replace_known(Bytes bytes, MutableBytes copy);

 private:
  /// Which addresses are mapped: each kind has its own pseudonyms.
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
