#pragma once
/// Converts packets of captures without Ethernet headers (`tcpdump -i any`, tunnels, loopback) to Ethernet frames.

#include <cstdint>
#include <optional>
#include <unordered_map>
#include <vector>

#include "captures/io/record.hpp"
#include "replay/rewrite/flow_map.hpp"

namespace rdmawire::replay {

/// Supported link types: Linux cooked capture (versions 1 and 2), raw IP, IPv4, IPv6 and BSD loopback.
///
/// The MAC address of a host is the first source address that a cooked capture contains for its IP address. Otherwise,
/// it is 02:00 and the last four bytes of the IP address. Group addresses follow RFC 1112, 6.4, and RFC 2464, 7.
class LinkConversion {
 public:
  /// True if packets of this type can be converted.
  [[nodiscard]] static bool supports(LinkType link);
  /// True if packets of this type contain MAC addresses, which learn() should collect before the first conversion.
  [[nodiscard]] static bool has_addresses(LinkType link) {
    return link == LinkType::linux_sll || link == LinkType::linux_sll2;
  }

  /// Collects the sender's MAC address.
  void learn(const captures::Record& record);
  /// Replaces the link header. The new bytes are valid until the next call. Returns false and leaves the record
  /// unchanged if the packet has no EtherType.
  bool convert(captures::Record& record);

 private:
  /// The link header of a packet.
  struct Parsed {
    std::uint16_t type = 0;               ///< EtherType
    std::optional<std::uint64_t> source;  ///< MAC address of the sender
    bool broadcast = false;
    Bytes packet;  ///< after the link header
  };
  /// Source and destination of an IP packet or of an ARP packet.
  struct Hosts {
    PortAddress from, to;
  };
  [[nodiscard]] static std::optional<Parsed> parse(const captures::Record& record);
  [[nodiscard]] static std::optional<Hosts> hosts_of(const Parsed& parsed);
  [[nodiscard]] std::uint64_t mac_of(const PortAddress& address) const;

  static constexpr std::size_t most_hosts = 1U << 18;
  std::unordered_map<PortAddress, std::uint64_t, HashFlow> macs_;
  std::vector<std::uint8_t> bytes_;
};

}  // namespace rdmawire::replay
