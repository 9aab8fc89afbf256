#pragma once
/// Flow map: captured connections and the live values that replace them. A plain value: inferred from a capture, read
/// from a file or built by a program.

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "dissectors/protocol/modular.hpp"
#include "dissectors/tracking/connection.hpp"

namespace rdmawire::replay {

using tracking::PortAddress;
using tracking::Side;

/// True for an IPv4 address, which is stored as an IPv4-mapped IPv6 address. RFC 4291, 2.5.5.2.
constexpr bool is_ipv4(const PortAddress& address) { return address.high == 0 && address.low >> 32 == 0xffff; }

/// True for the IP address of one host. False for LIDs, and for unspecified, multicast and limited broadcast addresses.
constexpr bool is_unicast_ip(const PortAddress& address) {
  const auto v4 = static_cast<std::uint32_t>(address.low);
  if (is_ipv4(address)) return v4 != 0 && v4 < 0xe000'0000;
  return address.high != 0 && address.high >> 56 != 0xff;
}

/// The address with `step` added to its last 32 bits, modulo 2^32.
constexpr PortAddress stepped(PortAddress address, std::uint32_t step) {
  address.low = (address.low & ~std::uint64_t{0xffffffff}) | (static_cast<std::uint32_t>(address.low) + step);
  return address;
}

/// Hash for tables by address or flow.
struct HashFlow {
  std::size_t operator()(const tracking::FlowKey& key) const { return key.hash(); }
  std::size_t operator()(const PortAddress& address) const { return tracking::FlowKey{address, {}, 0}.hash(); }
};

/// A captured value and its replacement.
template <class T>
struct Mapped {
  std::optional<T> captured{};  ///< nullopt: any value
  std::optional<T> live{};      ///< nullopt: unknown. The captured value is kept

  /// Replacement of `value`. nullopt: the value is kept.
  [[nodiscard]] std::optional<T> of(const T& value) const {
    return captured && !(*captured == value) ? std::nullopt : live;
  }
  friend bool operator==(const Mapped&, const Mapped&) = default;
};

/// First values of a captured and a live sequence. Captured numbers are moved by the difference, modulo 2^bits. A live
/// value requires a captured one.
struct MappedSequence {
  std::optional<std::uint32_t> captured{}, live{};

  [[nodiscard]] bool moves() const { return captured && live && *captured != *live; }
  /// Difference modulo 2^32, and therefore modulo any smaller power of two.
  [[nodiscard]] std::uint32_t offset() const { return captured && live ? *live - *captured : 0; }
  friend bool operator==(const MappedSequence&, const MappedSequence&) = default;
};

/// Memory of one endpoint that its peer accesses: R_Key and virtual address, or STag and tagged offset.
struct MappedRegion {
  Mapped<std::uint32_t> key;
  Mapped<std::uint64_t> base;
  std::uint64_t length = 0;  ///< bytes from the base. 0: unknown, all addresses with this key belong to the region

  [[nodiscard]] bool holds(std::uint64_t address) const {
    return length == 0 || !base.captured || address - *base.captured < length;
  }
  friend bool operator==(const MappedRegion&, const MappedRegion&) = default;
};

/// One endpoint of a connection. Its values are source values in packets it sends, and destination values in packets it
/// receives.
struct MappedEnd {
  Mapped<PortAddress> address;  ///< IPv4 (mapped into IPv6), IPv6, GID or LID. Live and captured have the same kind
  Mapped<std::uint64_t> mac;    ///< 48 bits
  Mapped<std::uint32_t> qp;     ///< QP number. iWARP: TCP port
  /// First PSN of the requests sent by this endpoint. Responses to them are moved by the same difference. iWARP:
  /// initial TCP sequence number, modulo 2^32.
  MappedSequence psn;
  MappedSequence msn;                 ///< first MSN in AETHs sent by this endpoint
  Mapped<std::uint32_t> qkey;         ///< UD: Q_Key of its QP, contained in packets to it
  Mapped<std::uint32_t> xrc_srq;      ///< XRC: its shared receive queue
  Mapped<std::uint16_t> source_port;  ///< UDP source port of packets it sends
  Mapped<std::uint32_t> comm_id;      ///< its communication ID in CM messages
  std::vector<MappedRegion> regions;  ///< its memory

  friend bool operator==(const MappedEnd&, const MappedEnd&) = default;
};

/// Change of the VLAN tag, of one connection or of all frames.
struct MappedVlan {
  static constexpr std::uint16_t untagged = 0x1000;  ///< not a valid VLAN ID
  /// Live `untagged`: the outermost tag is removed. Live VLAN ID: the tag is changed. A missing tag is added if
  /// `captured` permits it.
  Mapped<std::uint16_t> id;
  friend bool operator==(const MappedVlan&, const MappedVlan&) = default;
};

/// Two connected QPs, a pair of UD QPs, or an iWARP TCP connection.
struct MappedConnection {
  std::string name;  ///< display name, for example "connection 1"
  tracking::Service service = tracking::Service::rc;
  std::array<MappedEnd, 2> ends;  ///< by tracking::Side. A sent the first packet or requested the connection
  MappedVlan vlan;
  Mapped<std::uint16_t> pkey;
  Mapped<std::uint32_t> mtu;  ///< path MTU in payload bytes. If captured and live differ, messages are resegmented
  /// First and last captured frame. 0: unknown. If several connections used the same captured QP numbers, a frame
  /// belongs to the latest connection that started before it.
  std::uint64_t first_frame = 0, last_frame = 0;
  /// The connection is in the captures, but has no mapping: RewriteOptions::unmapped applies to its frames.
  bool unmapped = false;

  [[nodiscard]] const MappedEnd& at(Side end) const { return ends[static_cast<std::size_t>(end)]; }
  [[nodiscard]] MappedEnd& at(Side end) { return ends[static_cast<std::size_t>(end)]; }
  friend bool operator==(const MappedConnection&, const MappedConnection&) = default;
};

/// A host without a connection (for ARP, ping, CM addresses). Endpoints of connections are also hosts. Entries here
/// take precedence.
struct MappedHost {
  Mapped<PortAddress> address;
  Mapped<std::uint64_t> mac;
  friend bool operator==(const MappedHost&, const MappedHost&) = default;
};

/// All hosts of a network without an entry of their own: the first bits of their addresses are replaced.
struct MappedPrefix {
  PortAddress captured{}, live{};
  /// Length of each prefix in bits of an IPv6 address. IPv4: 96 to 128, because the address is mapped into IPv6.
  std::uint8_t captured_bits = 0, live_bits = 0;

  /// The live address. nullopt: the address is not in the captured network.
  [[nodiscard]] std::optional<PortAddress> of(const PortAddress& address) const {
    const auto high = [](unsigned bits) { return bits >= 64 ? ~std::uint64_t{0} : ~(~std::uint64_t{0} >> bits); };
    const auto low = [](unsigned bits) {
      return bits <= 64 ? std::uint64_t{0} : bits >= 128 ? ~std::uint64_t{0} : ~(~std::uint64_t{0} >> (bits - 64));
    };
    if ((address.high ^ captured.high) & high(captured_bits) || (address.low ^ captured.low) & low(captured_bits))
      return std::nullopt;
    PortAddress there = address;
    there.high = (address.high & ~high(live_bits)) | (live.high & high(live_bits));
    there.low = (address.low & ~low(live_bits)) | (live.low & low(live_bits));
    return there;
  }
  friend bool operator==(const MappedPrefix&, const MappedPrefix&) = default;
};

/// UDP and TCP ports, as source and as destination, in all frames. Values of a connection take precedence.
struct MappedPorts {
  std::uint16_t from = 0, to = 0;  ///< inclusive range
  std::uint16_t live = 0;
  friend bool operator==(const MappedPorts&, const MappedPorts&) = default;
};

struct FlowMap {
  std::vector<MappedConnection> connections;
  std::vector<MappedHost> hosts;
  std::vector<MappedPrefix> prefixes{};  ///< the first one that contains an address applies
  /// The same for captured source or destination addresses only. They take precedence over all other addresses.
  std::vector<MappedPrefix> source_prefixes{}, destination_prefixes{};
  std::vector<MappedPorts> ports{};  ///< the first one that contains a port applies
  /// Changes of all Ethernet frames. The first one that applies to the frame's tag is used. A live VLAN of a connection
  /// takes precedence.
  std::vector<MappedVlan> vlans{};
  /// Added to the last 32 bits of the live unicast IP addresses of hosts that are not an endpoint of a connection.
  std::uint32_t address_step = 0;

  [[nodiscard]] bool empty() const { return only_steps() && address_step == 0; }
  /// True if the map has no entry, except perhaps `address_step`.
  [[nodiscard]] bool only_steps() const {
    return connections.empty() && hosts.empty() && prefixes.empty() && source_prefixes.empty() &&
           destination_prefixes.empty() && ports.empty() && vlans.empty();
  }
  /// The live address according to the first of `list` that contains the address.
  [[nodiscard]] static std::optional<PortAddress> in_prefix(const std::vector<MappedPrefix>& list,
                                                            const PortAddress& address) {
    for (const MappedPrefix& prefix : list)
      if (const auto live = prefix.of(address)) return live;
    return std::nullopt;
  }
  /// The live address of a host by its network.
  [[nodiscard]] std::optional<PortAddress> in_prefix(const PortAddress& address) const {
    return in_prefix(prefixes, address);
  }
  /// Sets the missing live addresses of connections and hosts by their networks.
  void apply_prefixes() {
    const auto apply = [&](Mapped<PortAddress>& address) {
      if (address.captured && !address.live) address.live = in_prefix(*address.captured);
    };
    for (MappedConnection& connection : connections)
      for (MappedEnd& end : connection.ends) apply(end.address);
    for (MappedHost& host : hosts) apply(host.address);
  }
  friend bool operator==(const FlowMap&, const FlowMap&) = default;
};

}  // namespace rdmawire::replay
