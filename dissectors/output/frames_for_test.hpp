#pragma once
/// For tests only: literal frames from Linux 6.1's RoCEv2 device, which are in captures/samples, and the packets
/// decoded from them.

#include <string_view>

#include "dissectors/protocol/testing.hpp"
#include "dissectors/tracking/dissector.hpp"

namespace rdmawire::output::testing {

/// A NAK: frame 34 of rc-pingpong-loss.pcap.gz.
inline constexpr std::string_view nak_frame =
    "525400000003525400000002 0800 45000030739140004011b3270a0000020a000003 c12112b7001c0000"
    "1100ffff0000001100185779 60000000 65f72c6f";
/// A READ request: frame 20 of rping.pcap.
inline constexpr std::string_view read_request_frame =
    "525400000003525400000002 0800 4500003cccc14000401159eb0a0000020a000003 f87012b700280000"
    "0c00ffff00000011809d7fd1 000055b324a0a4700000050e00000fa0 92d0379e";

/// A packet with number 7, captured 1.5 s after 2026-11-21 07:53:37 UTC. Owns its bytes.
struct OnePacket {
  std::vector<std::uint8_t> bytes;
  tracking::Packet packet;

  explicit OnePacket(std::string_view hex, LinkType link = LinkType::ethernet, std::uint32_t extra_on_wire = 0)
      : bytes(rdmawire::testing::from_hex(hex)) {
    packet.number = 7;
    packet.time_ns = 1'795'247'617'000'000'000 + 1'500'000'000;
    packet.link = link;
    tracking::Dissector().dissect(packet, bytes, static_cast<std::uint32_t>(bytes.size()) + extra_on_wire);
  }
  OnePacket(const OnePacket&) = delete;
  OnePacket& operator=(const OnePacket&) = delete;
};

}  // namespace rdmawire::output::testing
