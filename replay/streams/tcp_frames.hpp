#pragma once
/// Builds frames of a TCP connection without a stack, to record in-process connections.

#include <cstdint>
#include <optional>
#include <vector>

#include "replay/streams/tcp.hpp"

namespace rdmawire::replay {

/// One segment over IPv4 and Ethernet. RFC 9293, 3.1.
struct TcpFrame {
  MacAddress from_mac = 0, to_mac = 0;
  TcpAddress from{}, to{};  ///< IPv4
  std::uint32_t seq = 0;
  std::optional<std::uint32_t> ack_number{};  ///< nullopt: the ACK flag is not set
  bool syn = false, fin = false, rst = false;
  std::optional<std::uint16_t> mss{};  ///< MSS option
  std::uint16_t window = 0xffff, identification = 0;
  Bytes payload{};

  /// Length in sequence space.
  [[nodiscard]] std::uint32_t length() const {
    return static_cast<std::uint32_t>(payload.size()) + (syn ? 1 : 0) + (fin ? 1 : 0);
  }
  /// The frame, starting with the Ethernet header, with lengths and checksums.
  [[nodiscard]] std::vector<std::uint8_t> encode() const;
};

}  // namespace rdmawire::replay
