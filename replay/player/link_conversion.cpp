#include "replay/player/link_conversion.hpp"

#include <algorithm>

#include "dissectors/protocol/bits.hpp"
#include "dissectors/protocol/ethernet.hpp"

namespace rdmawire::replay {
namespace {

constexpr std::uint64_t broadcast_mac = 0xffffffffffff;

// Linux cooked captures: packet types and the length of an Ethernet address. www.tcpdump.org/linktypes.html
constexpr std::uint64_t to_broadcast = 1;
constexpr std::uint64_t mac_bytes = 6;

/// EtherType of an IP packet by its version. 0: no IP packet.
std::uint16_t type_of_ip(Bytes packet) {
  if (packet.empty()) return 0;
  return packet[0] >> 4 == 4 ? ethertype::ipv4 : packet[0] >> 4 == 6 ? ethertype::ipv6 : 0;
}

bool is_group(const PortAddress& address) {
  if (is_ipv4(address)) return (address.low >> 28 & 0xf) == 0xe || (address.low & 0xffffffff) == 0xffffffff;
  return address.high >> 56 == 0xff;
}

}  // namespace

bool LinkConversion::supports(LinkType link) {
  switch (link) {
    case LinkType::linux_sll:
    case LinkType::linux_sll2:
    case LinkType::raw_ip:
    case LinkType::ipv4:
    case LinkType::ipv6:
    case LinkType::null_loopback: return true;
    default: return false;
  }
}

std::optional<LinkConversion::Parsed> LinkConversion::parse(const captures::Record& record) {
  const Bytes bytes = record.bytes;
  Parsed parsed;
  const auto cooked = [&](std::size_t header, std::size_t packet_type, std::size_t type_bytes, std::size_t length,
                          std::size_t length_bytes, std::size_t address, std::size_t protocol) {
    if (bytes.size() < header) return false;
    parsed.type = static_cast<std::uint16_t>(load_be<2>(bytes.data() + protocol));
    parsed.broadcast = load_be(bytes.data() + packet_type, type_bytes) == to_broadcast;
    if (load_be(bytes.data() + length, length_bytes) == mac_bytes)
      if (const std::uint64_t mac = load_be<mac_bytes>(bytes.data() + address); mac != 0) parsed.source = mac;
    parsed.packet = bytes.subspan(header);
    return parsed.type >= ethertype::lowest;  // smaller values: Novell's 802.3 frames and LLC
  };
  constexpr std::size_t family_bytes = 4;  // of a BSD loopback header
  bool known = false;
  switch (record.link) {
    case LinkType::linux_sll: known = cooked(16, 0, 2, 4, 2, 6, 14); break;
    case LinkType::linux_sll2: known = cooked(20, 10, 1, 11, 1, 12, 0); break;
    case LinkType::null_loopback:
      if (bytes.size() < family_bytes) break;
      parsed.packet = bytes.subspan(family_bytes);
      parsed.type = type_of_ip(parsed.packet);
      known = parsed.type != 0;
      break;
    default:
      parsed.packet = bytes;
      parsed.type = type_of_ip(bytes);
      known = parsed.type != 0;
  }
  return known ? std::optional(parsed) : std::nullopt;
}

std::optional<LinkConversion::Hosts> LinkConversion::hosts_of(const Parsed& parsed) {
  std::uint16_t type = parsed.type;
  Bytes packet = parsed.packet;
  constexpr std::size_t tag_bytes = 4;
  while ((type == ethertype::vlan || type == ethertype::provider_vlan) && packet.size() >= tag_bytes) {
    type = static_cast<std::uint16_t>(load_be<2>(packet.data() + 2));
    packet = packet.subspan(tag_bytes);
  }
  const auto v4 = [&](std::size_t from, std::size_t to) {
    return Hosts{PortAddress::of_ipv4(static_cast<std::uint32_t>(load_be<4>(packet.data() + from))),
                 PortAddress::of_ipv4(static_cast<std::uint32_t>(load_be<4>(packet.data() + to)))};
  };
  if (type == ethertype::ipv4 && packet.size() >= 20) return v4(12, 16);
  if (type == ethertype::arp && packet.size() >= 28) return v4(14, 24);
  if (type == ethertype::ipv6 && packet.size() >= 40)
    return Hosts{PortAddress::of_gid(packet.data() + 8), PortAddress::of_gid(packet.data() + 24)};
  return std::nullopt;
}

void LinkConversion::learn(const captures::Record& record) {
  if (macs_.size() >= most_hosts || !has_addresses(record.link)) return;
  const auto parsed = parse(record);
  if (!parsed || !parsed->source) return;
  if (const auto hosts = hosts_of(*parsed)) macs_.try_emplace(hosts->from, *parsed->source);
}

std::uint64_t LinkConversion::mac_of(const PortAddress& address) const {
  const auto low = static_cast<std::uint32_t>(address.low);
  if (is_group(address)) {
    if (!is_ipv4(address)) return std::uint64_t{0x3333} << 32 | low;
    return low == 0xffffffff ? broadcast_mac : std::uint64_t{0x01005e} << 24 | (low & 0x7fffff);
  }
  const auto found = macs_.find(address);
  return found != macs_.end() ? found->second : std::uint64_t{0x0200} << 32 | low;
}

bool LinkConversion::convert(captures::Record& record) {
  const auto parsed = parse(record);
  if (!parsed) return false;
  const auto hosts = hosts_of(*parsed);
  constexpr std::uint64_t unknown_host = std::uint64_t{0x0200} << 32;
  const std::uint64_t source = parsed->source ? *parsed->source : hosts ? mac_of(hosts->from) : unknown_host;
  const std::uint64_t destination = parsed->broadcast ? broadcast_mac : hosts ? mac_of(hosts->to) : unknown_host;
  bytes_.resize(Ethernet::size + parsed->packet.size());
  store_be(bytes_.data(), mac_bytes, destination);
  store_be(bytes_.data() + mac_bytes, mac_bytes, source);
  store_be(bytes_.data() + 2 * mac_bytes, 2, parsed->type);
  std::copy(parsed->packet.begin(), parsed->packet.end(), bytes_.begin() + Ethernet::size);
  const std::size_t removed = record.bytes.size() - parsed->packet.size();
  record.wire_length += static_cast<std::uint32_t>(Ethernet::size);
  record.wire_length -= static_cast<std::uint32_t>(std::min<std::size_t>(removed, record.wire_length));
  record.bytes = bytes_;
  record.link = LinkType::ethernet;
  return true;
}

}  // namespace rdmawire::replay
