#pragma once
/// Changes IP packets that contain TCP, in place. Checksums are updated incrementally, so invalid ones stay invalid.
/// RFC 1624.

#include <cstddef>
#include <cstdint>
#include <optional>

#include "dissectors/protocol/bits.hpp"
#include "replay/host/host.hpp"

namespace rdmawire::replay {

/// Layout of a packet.
struct TcpPacket {
  bool v6 = false;
  std::size_t bytes = 0;      ///< IP length, without Ethernet padding
  std::size_t transport = 0;  ///< offset of the IP payload
  bool first = true;          ///< not a later fragment: `transport` is the offset of the TCP header

  /// Parses an IPv4 or IPv6 packet with TCP. Returns nullopt for other packets, truncated packets, and IPv6 with
  /// extension headers.
  static std::optional<TcpPacket> find(Bytes packet);

  enum class End : std::uint8_t { source, destination };
  [[nodiscard]] IpAddress address(Bytes packet, End end) const;
  /// `address` must have the IP version of the packet.
  void set_address(MutableBytes packet, End end, const IpAddress& address) const;
  /// The low eight TCP flags. 0 for a later fragment.
  [[nodiscard]] std::uint8_t flags(Bytes packet) const;
  /// Requires `first`.
  [[nodiscard]] std::uint16_t source_port(Bytes packet) const;
  /// Changes the maximum segment size option of a SYN. No effect on other packets. RFC 9293, 3.7.1.
  void set_announced_mss(MutableBytes packet, std::uint16_t mss) const;

  static constexpr std::uint8_t fin = 0x01, syn = 0x02, rst = 0x04, ack = 0x10;

 private:
  [[nodiscard]] std::size_t address_at(End end) const;
};

}  // namespace rdmawire::replay
