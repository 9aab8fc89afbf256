#pragma once
/// For tests only: literal frames of Linux 6.1's RoCEv2 device (source: captures/samples), and the packets decoded
/// from them.

#include <string_view>

#include "dissectors/protocol/testing.hpp"
#include "dissectors/tracking/dissector.hpp"

namespace rdmawire::output::testing {

/// rc-pingpong-loss.pcap.gz, frame 34: a NAK.
inline constexpr std::string_view nak_frame =
    "525400000003525400000002 0800 45000030739140004011b3270a0000020a000003 c12112b7001c0000"
    "1100ffff0000001100185779 60000000 65f72c6f";
/// rping.pcap, frame 20.
inline constexpr std::string_view read_request_frame =
    "525400000003525400000002 0800 4500003cccc14000401159eb0a0000020a000003 f87012b700280000"
    "0c00ffff00000011809d7fd1 000055b324a0a4700000050e00000fa0 92d0379e";

/// One packet, number 7, at 1.5 s after 2026-11-21 07:53:37 UTC. Owns the bytes.
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
