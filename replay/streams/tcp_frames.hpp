#pragma once
/// Frames of a TCP connection that no stack made: what passed in process is shown as if it had been on a wire.

#include <cstdint>
#include <optional>
#include <vector>

#include "replay/streams/tcp.hpp"

namespace rdmawire::replay {

/// One segment in one direction, over IPv4 and Ethernet. RFC 9293, 3.1.
struct TcpFrame {
  MacAddress from_mac = 0, to_mac = 0;
  TcpAddress from{}, to{};  ///< of IPv4
  std::uint32_t seq = 0;
  std::optional<std::uint32_t> ack_number{};  ///< nothing: the ACK flag is not set
  bool syn = false, fin = false, rst = false;
  std::optional<std::uint16_t> mss{};  ///< the option
  std::uint16_t window = 0xffff, identification = 0;
  Bytes payload{};

  /// Bytes of sequence space.
  [[nodiscard]] std::uint32_t length() const {
    return static_cast<std::uint32_t>(payload.size()) + (syn ? 1 : 0) + (fin ? 1 : 0);
  }
  /// From Ethernet on, with lengths and checksums.
  [[nodiscard]] std::vector<std::uint8_t> encode() const;
};

}  // namespace rdmawire::replay
