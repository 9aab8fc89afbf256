#include "replay/streams/tcp_packet.hpp"

#include <algorithm>
#include <array>

#include "dissectors/protocol/ip.hpp"
#include "dissectors/protocol/transport.hpp"

namespace rdmawire::replay {
namespace {

constexpr std::size_t checksum_in_tcp = 16, checksum_in_ipv4 = 10;

/// Updates the checksum for replacing the bytes at `at` (an even offset in the covered range) by `with`. RFC 1624, 3.
void follow(MutableBytes packet, std::size_t checksum_at, std::size_t at, Bytes with) {
  std::uint32_t sum = 0xffff & ~static_cast<std::uint32_t>(load_be<2>(packet.data() + checksum_at));
  for (std::size_t i = 0; i < with.size(); i += 2) {
    sum += 0xffff & ~static_cast<std::uint32_t>(load_be<2>(packet.data() + at + i));
    sum += static_cast<std::uint32_t>(load_be<2>(with.data() + i));
  }
  while (sum >> 16 != 0) sum = (sum & 0xffff) + (sum >> 16);
  store_be(packet.data() + checksum_at, 2, 0xffff & ~sum);
}

void put(MutableBytes packet, std::size_t at, Bytes bytes) {
  std::copy(bytes.begin(), bytes.end(), packet.begin() + static_cast<std::ptrdiff_t>(at));
}

}  // namespace

std::optional<TcpPacket> TcpPacket::find(Bytes packet) {
  TcpPacket found;
  if (packet.empty()) return std::nullopt;
  found.v6 = packet[0] >> 4 == 6;
  if (!found.v6 && packet[0] >> 4 != 4) return std::nullopt;
  if (packet.size() < (found.v6 ? Ipv6::size : Ipv4::size)) return std::nullopt;
  if (found.v6) {
    const View<Ipv6> ip(packet.data());
    if (ip.get<"next_header">() != ip_protocol::tcp) return std::nullopt;
    found.transport = Ipv6::size;
    found.bytes = Ipv6::size + ip.get<"payload_length">();
  } else {
    const View<Ipv4> ip(packet.data());
    if (ip.get<"protocol">() != ip_protocol::tcp) return std::nullopt;
    found.transport = ip.get<"header_length">() * 4U;
    found.bytes = ip.get<"total_length">();
    found.first = ip.get<"fragment_offset">() == 0;
    if (found.transport < Ipv4::size) return std::nullopt;
  }
  if (found.bytes > packet.size() || found.bytes < found.transport) return std::nullopt;
  if (found.first && found.bytes < found.transport + Tcp::size) return std::nullopt;
  return found;
}

std::size_t TcpPacket::address_at(End end) const {
  if (v6) return end == End::source ? 8 : 24;
  return end == End::source ? 12 : 16;
}

IpAddress TcpPacket::address(Bytes packet, End end) const {
  const Bytes bytes_of_it = packet.subspan(address_at(end), v6 ? 16 : 4);
  if (v6) return IpAddress::of_v6(bytes_of_it);
  return IpAddress::v4(static_cast<std::uint32_t>(load_be<4>(bytes_of_it.data())));
}

void TcpPacket::set_address(MutableBytes packet, End end, const IpAddress& address) const {
  const std::size_t at = address_at(end);
  if (first) follow(packet, transport + checksum_in_tcp, at, address.bytes());
  if (!v6) follow(packet, checksum_in_ipv4, at, address.bytes());
  put(packet, at, address.bytes());
}

std::uint8_t TcpPacket::flags(Bytes packet) const {
  constexpr std::size_t flags_in_tcp = 13;
  return first ? packet[transport + flags_in_tcp] : 0;
}

std::uint16_t TcpPacket::source_port(Bytes packet) const {
  return View<Tcp>(packet.data() + transport).get<"src_port">();
}

void TcpPacket::set_announced_mss(MutableBytes packet, std::uint16_t mss) const {
  constexpr std::uint8_t end_of_options = 0, no_operation = 1, maximum_segment_size = 2, mss_bytes = 4;
  if ((flags(packet) & syn) == 0) return;
  const std::size_t end = transport + View<Tcp>(packet.data() + transport).get<"data_offset">() * 4U;
  if (end > bytes) return;
  for (std::size_t at = transport + Tcp::size; at < end && packet[at] != end_of_options;) {
    if (packet[at] == no_operation) {
      ++at;
      continue;
    }
    if (at + 1 >= end || packet[at + 1] < 2 || packet[at + 1] > end - at) return;
    if (packet[at] == maximum_segment_size && packet[at + 1] == mss_bytes && (at - transport) % 2 == 0) {
      std::array<std::uint8_t, 2> size{};
      store_be(size.data(), 2, mss);
      follow(packet, transport + checksum_in_tcp, at + 2, size);
      put(packet, at + 2, size);
      return;
    }
    at += packet[at + 1];
  }
}

}  // namespace rdmawire::replay
