#pragma once
/// Builds MRC packets from the input of a fuzzer.

#include <cstdint>
#include <string_view>
#include <vector>

#include "dissectors/protocol/encode.hpp"
#include "dissectors/protocol/ip.hpp"
#include "dissectors/protocol/mrc.hpp"
#include "dissectors/protocol/transport.hpp"

namespace rdmawire::tracking::testing {

/// Number of input bytes that describe one packet. The packets are between two hosts, to one of four QPs.
constexpr std::size_t mrc_described = 12;

inline std::vector<std::uint8_t> mrc_packet_of(const std::uint8_t* d) {
  constexpr std::uint8_t opcodes[] = {0xc6, 0xc7, 0xc8, 0xc9, 0xca, 0xcb, 0xd1, 0xd8, 0xd9, 0xdc, 0xdd, 0xde};
  const std::uint8_t code = opcodes[d[0] % std::size(opcodes)];
  const MrcOpcode& op = mrc_opcode(code);
  const bool back = op.direction == Direction::response;
  constexpr std::uint8_t hosts[2][16] = {{1}, {2}};
  Value<Ipv6> ip;
  ip.set<"src">(Bytes(hosts[back])).set<"dst">(Bytes(hosts[!back])).set<"flow_label">(d[1] & 7);
  ip.set<"traffic_class">(d[1] >> 6);
  Frame frame = ip / Value<Udp>().set<"src_port">(d[1] >> 3 & 7);
  // Bytes 2 and 3 select PSNs near the wrap. The high bits of byte 10 select all other PSNs.
  const std::uint32_t psn = (0xffff00U + (d[10] & 0xf8U) * 0x10000U + (std::uint32_t{d[2]} << 8 | d[3])) & 0xffffff;
  Value<MrcBth> bth;
  bth.set<"opcode">(code).set<"dest_qp">(d[4] & 3).set<"psn">(psn).set<"rtx">(d[4] >> 2 & 1);
  bth.set<"ack_request">(d[4] >> 3 & 1).set<"se">(d[4] >> 4 & 1).set<"migreq">(d[4] >> 5 & 1);
  const bool stamped = op.payload && (d[4] & 64), reserved = (d[4] & 128) != 0;
  if (reserved) bth.set<"reserved">(d[5] & 15).set<"pkey">(d[6]);
  frame /= bth;
  for (std::size_t i = 0; i < op.header_count; ++i) {
    HeaderValue header(*op.headers[i]);
    std::size_t at = 5;
    for (const Field& field : header.header().fields)
      if ((reserved || !field.is_reserved()) && field.is_number() && !field.is_part() &&
          header.header().name != "reth" && !(field.is_reserved() && field.bit < 9))
        header.set(field, field.name == "cack_psn" || field.name == "nack_psn" ? psn : d[at++ % mrc_described] & 7U);
    if (header.header().name == "reth") header.set(*info<Reth>.find("length"), 4096);
    frame /= header;
    if (header.header().name == "meth" && stamped) frame /= Value<Tseth>().set<"timestamp">(d[7]);
  }
  if (op.payload) frame.payload.resize(d[5] & 63);
  std::vector<std::uint8_t> bytes = frame.encode();
  if (d[11] >> 6 == 3) bytes.resize(bytes.size() - std::min<std::size_t>(bytes.size(), d[11] & 31));  // trimmed
  return bytes;
}

}  // namespace rdmawire::tracking::testing
