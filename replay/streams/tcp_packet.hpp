#pragma once
/// IP packets with TCP in them, changed in place: checksums follow, and one that was wrong stays wrong. RFC 1624.

#include <cstddef>
#include <cstdint>
#include <optional>

#include "dissectors/protocol/bits.hpp"
#include "replay/host/host.hpp"

namespace rdmawire::replay {

/// Where things are in a packet, which is at least `bytes` long.
struct TcpPacket {
  bool v6 = false;
  std::size_t bytes = 0;      ///< as its own length says, without what Ethernet padded
  std::size_t transport = 0;  ///< where what IP carries begins
  bool first = true;          ///< no later fragment: TCP's header begins at `transport`, and its checksum is there

  /// Of an IPv4 or IPv6 packet that carries TCP; nothing of others, of what is cut before its end, and of IPv6 with
  /// extension headers.
  static std::optional<TcpPacket> find(Bytes packet);

  enum class End : std::uint8_t { source, destination };
  [[nodiscard]] IpAddress address(Bytes packet, End end) const;
  /// `address` is of the packet's own version.
  void set_address(MutableBytes packet, End end, const IpAddress& address) const;
  /// TCP's flags, of the low eight bits; 0 of a later fragment.
  [[nodiscard]] std::uint8_t flags(Bytes packet) const;
  /// TCP's; the packet is `first`.
  [[nodiscard]] std::uint16_t source_port(Bytes packet) const;
  /// Of a SYN that announces a maximum segment size, another one; of others nothing. RFC 9293, 3.7.1.
  void set_announced_mss(MutableBytes packet, std::uint16_t mss) const;

  static constexpr std::uint8_t fin = 0x01, syn = 0x02, rst = 0x04, ack = 0x10;

 private:
  [[nodiscard]] std::size_t address_at(End end) const;
};

}  // namespace rdmawire::replay
